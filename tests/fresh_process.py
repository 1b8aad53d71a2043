"""Fresh Python processes that do not wait for torch: forked by multiprocessing's fork server, which has imported it.

The suite starts about 150 processes that kill themselves, share a job or draw on a terminal. Importing torch and
transformers takes 3 to 5 seconds of CPU time, 10 minutes for all of them. The server only imports, so that a child
starts with the state of an interpreter that has just imported the same modules. Unlike the test process, it runs
without the shape checks of `--jaxtyping-packages`, as the program does for its users.
"""

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = (
    "tests.tiny_runs",
    "torch._dynamo",  # which every torch optimizer imports
    "scipy.optimize",
    "transformers.models.llama.modeling_llama",
    "transformers.tokenization_utils_tokenizers",
    "quadric.cli",
    "quadric.evidence.collecting",
    "quadric.run.running",
    "quadric.viewer.export",
)


class Finished(NamedTuple):
    """How a process ended, and everything that it wrote."""

    returncode: int
    """Negative for a process that was ended by a signal, as in subprocess."""
    stdout: str
    stderr: str


class Process:
    """A running child of the server."""

    def __init__(self, code: str, arguments: list[str], environment: dict[str, str], terminal: int | None) -> None:
        self._files = [tempfile.TemporaryFile("w+b") for _ in ("stdout", "stderr")]  # noqa: SIM115 - closed by `wait`
        # A Connection takes its descriptor to the child.
        outputs = [Connection(os.dup(file.fileno() if terminal is None else terminal)) for file in self._files]
        # Daemons are ended with the test process: a rank that waits for others must not outlive its test.
        given = (code, arguments, environment, *outputs)
        self._process = CONTEXT.Process(target=_execute, args=given, daemon=True)
        self._process.start()
        self.pid = self._process.pid
        for output in outputs:
            output.close()

    def written(self) -> str:
        """Everything that the process has written to its standard output so far."""
        return self._read(0)

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 300) -> Finished:
        """Wait until the process ends; one that takes longer than `timeout` seconds is killed, which is an error."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.signal(signal.SIGKILL)
            raise TimeoutError(f"no end after {timeout} s; standard error: {self._read(1)}")
        finished = Finished(self._process.exitcode, self._read(0), self._read(1))
        for file in self._files:
            file.close()
        return finished

    def _read(self, number: int) -> str:
        descriptor = self._files[number].fileno()  # pread: the child shares the position in the file
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


def start(
    code: str, *arguments: object, environment: dict[str, str] | None = None, terminal: int | None = None
) -> Process:
    """Start what `python -c code arguments` would run, from the root of the repository.

    Args:
        code: Python source; `sys.argv[1:]` are the arguments.
        *arguments: Converted to strings.
        environment: Changes to the environment variables of the test.
        terminal: Descriptor of a terminal that shows what the process writes, which is not kept then.
    """
    _ensure_server()
    changed = dict(os.environ) | {"OMP_NUM_THREADS": "1"} | (environment or {})
    return Process(code, [str(each) for each in arguments], changed, terminal)


def run(code: str, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
    """Run `code` as `start` does and wait for its end."""
    return start(code, *arguments, environment=environment).wait()


def run_job(code: str, *arguments: object, n_ranks: int = 2) -> list[Finished]:
    """Run `code` once per rank of a distributed job, in the environment that torchrun would give; returns all ranks.

    torchrun starts new interpreters, each of which imports everything again. What torchrun itself does, such as ending
    the other ranks when one dies, is not repeated here: a test of that has to call it.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job = {"WORLD_SIZE": n_ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    places = [{name: str(value) for name, value in {**job, "RANK": r, "LOCAL_RANK": r}.items()} for r in range(n_ranks)]
    ranks = [start(code, *arguments, environment=place) for place in places]
    return [rank.wait() for rank in ranks]


def module(name: str) -> str:
    """The code that runs a module as `python -m name` does."""
    return f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"


def _ensure_server() -> None:
    """Start the server unless it runs, with the environment and the folder that its imports need."""
    CONTEXT.set_forkserver_preload(list(IMPORTED))
    before = os.getcwd()
    os.chdir(ROOT)  # where it finds `tests`
    try:
        with patch.dict(os.environ, OMP_NUM_THREADS="1"):
            forkserver.ensure_running()
    finally:
        os.chdir(before)


def _execute(code: str, arguments: list[str], environment: dict[str, str], *outputs: Connection) -> None:
    """Run the code in this process; multiprocessing turns SystemExit into the exit code that the interpreter gives."""
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    for number, output in enumerate(outputs, start=1):
        os.dup2(output.fileno(), number)
        output.close()
    # The streams of the server do not fit: they were opened on other kinds of files.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - multiprocessing flushes it
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    exec(compile(code, "<request>", "exec"), {"__name__": "__main__"})
