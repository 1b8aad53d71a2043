"""SIGTERM ends a command as Ctrl-C does."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from quadric.cli.signals import Terminated, terminable


def test_sigterm_ends_a_command_as_ctrl_c_does():
    code = "import quadric.cli, os, signal, sys\n"
    code += "quadric.cli._run = lambda arguments: os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "sys.exit(quadric.cli.main())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (143, "quadric: terminated\n")


def test_the_former_handler_is_back_after_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_that_may_not_handle_signals_is_left_alone() -> None:
    done: list[bool] = []

    def work() -> None:
        with terminable():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
