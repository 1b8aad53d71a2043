"""`python -m quadric`, which is also how torchrun starts it."""

import os
import sys

from quadric.cli import main


def leave(code: int) -> None:
    """End the process; a process of a torchrun job ends at once.

    While Python takes its libraries apart, threads of the job's communication may still be there, and now and then that
    aborted a process whose work was done and saved. Nothing of ours is left to be done by then.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main())
