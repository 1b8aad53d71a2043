"""`python -m quadric` is the `quadric` command; torchrun needs a module to start."""

import sys

from quadric.cli import main

sys.exit(main())
