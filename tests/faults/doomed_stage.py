"""Run a stage that is killed before its Nth operation on a file: STAGE SIGNAL N WORLD WHOLE STATIC OUT.

With N = 0 nothing happens to it, and the number of operations is printed in the end.
"""

import os
import sys
from pathlib import Path

from tests.faults.stages import STAGES, Places, on_file_events

stage, signal_number, doom, *places = sys.argv[1:]
count = 0


def act(number: int) -> None:
    global count
    count = number
    if number == int(doom):
        os.kill(os.getpid(), int(signal_number))


given = Places(*map(Path, places))
on_file_events(given.out, act)
code = STAGES[stage](given)
print(f"operations {count}", flush=True)
sys.exit(code)
