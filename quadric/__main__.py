"""`python -m quadric`, which is also how torchrun starts it."""

import os
import sys

from quadric.cli import main


def leave(code: int) -> None:
    """End the process; a process of a torchrun job ends at once, without Python's own cleanup.

    Threads of the job's communication may still run while Python unloads its libraries, and that sometimes aborted a
    process whose work was done and saved. By this time there is nothing left to clean up.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main())
