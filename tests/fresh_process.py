"""Fresh Python processes that do not wait for torch, because they are forked from a server that has imported it.

Importing torch takes about 3 seconds, torch._dynamo (which every torch optimizer imports) 2 more, transformers 5 more:
a test that kills a process a dozen times would spend its time on imports. The server only imports, so that a child
starts with the state of an interpreter that has just imported the same modules. Unlike the test process, it runs
without the shape checks of `--jaxtyping-packages`, as the program does for its users.
"""

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LARGEST_REQUEST = 1 << 17

TORCH = ("torch", "torch._dynamo", "scipy.optimize", "quadric.train.loop", "quadric.data.harvesting")
"""Without huggingface_hub, which reads the address of its hub when it is imported."""

TRANSFORMERS = (
    *TORCH,
    "quadric.cli",
    "transformers.models.llama.modeling_llama",
    "transformers.tokenization_utils_tokenizers",
    # What most of the children would import next.
    "pytest",
    "quadric.evidence.collecting",
    "quadric.run.running",
    "quadric.viewer.export",
    "tests.tiny_runs",
)


class Finished(NamedTuple):
    """How a process ended, and everything that it wrote."""

    returncode: int
    """Negative for a process that was ended by a signal, as in subprocess."""
    stdout: str
    stderr: str


class Process:
    """A running child of a server."""

    def __init__(self, server: "Server", request: dict[str, Any], terminal: int | None = None) -> None:
        self._files = [tempfile.TemporaryFile("w+b") for _ in ("stdout", "stderr")]  # noqa: SIM115 - closed by `wait`
        self._connection, theirs = socket.socketpair()
        outputs = [file.fileno() if terminal is None else terminal for file in self._files]
        with theirs:
            server.send(request, [*outputs, theirs.fileno()])
        self.pid = int(self._connection.recv(32))

    def written(self) -> str:
        """Everything that the process has written to its standard output so far."""
        return self._read(0)

    def is_running(self) -> bool:
        """Whether no exit code has arrived yet."""
        self._connection.setblocking(False)
        try:
            return not self._connection.recv(32, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self._connection.setblocking(True)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 300) -> Finished:
        """Wait until the process ends; one that takes longer than `timeout` seconds is killed, which is an error."""
        self._connection.settimeout(timeout)
        try:
            code = int(self._connection.recv(32))
        except TimeoutError:
            self.signal(signal.SIGKILL)
            raise TimeoutError(f"no end after {timeout} s; standard error: {self._read(1)}") from None
        finished = Finished(code, self._read(0), self._read(1))
        self._connection.close()
        for file in self._files:
            file.close()
        return finished

    def _read(self, number: int) -> str:
        descriptor = self._files[number].fileno()  # pread: the child shares the position in the file
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


class Server:
    """A process that has imported some modules and forks itself on request."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.fresh_process", str(theirs.fileno()), *preload]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        # A session of its own: Ctrl-C in the terminal is for the tests, and a closed socket ends the server.
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], start_new_session=True
        )
        theirs.close()

    def send(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Ask for a child."""
        socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)

    def close(self) -> None:
        """End the server."""
        self._control.close()
        self._process.wait()


@cache
def _server(preload: tuple[str, ...]) -> Server:
    server = Server(preload)
    atexit.register(server.close)
    return server


def start(
    code: str,
    *arguments: object,
    preload: tuple[str, ...] = TORCH,
    environment: dict[str, str] | None = None,
    terminal: int | None = None,
) -> Process:
    """Start what `python -c code arguments` would run, from the root of the repository.

    Args:
        code: Python source; `sys.argv[1:]` are the arguments.
        *arguments: Converted to strings.
        preload: Modules that the process finds imported.
        environment: Changes to the environment variables of the test.
        terminal: Descriptor of a terminal that shows what the process writes, which is not kept then.
    """
    changed = dict(os.environ) | {"OMP_NUM_THREADS": "1"} | (environment or {})
    request = {"code": code, "arguments": [str(each) for each in arguments], "environment": changed}
    return Process(_server(preload), request, terminal)


def run(
    code: str, *arguments: object, preload: tuple[str, ...] = TORCH, environment: dict[str, str] | None = None
) -> Finished:
    """Run `code` as `start` does and wait for its end."""
    return start(code, *arguments, preload=preload, environment=environment).wait()


def run_job(code: str, *arguments: object, preload: tuple[str, ...] = TORCH, n_ranks: int = 2) -> list[Finished]:
    """Run `code` once per rank of a distributed job, in the environment that torchrun would give; returns all ranks.

    torchrun starts new interpreters, each of which imports everything again. What torchrun itself does, such as ending
    the other ranks when one dies, is not repeated here: a test of that has to call it.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job = {"WORLD_SIZE": n_ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    ranks = [
        start(
            code,
            *arguments,
            preload=preload,
            environment={name: str(value) for name, value in {**job, "RANK": rank, "LOCAL_RANK": rank}.items()},
        )
        for rank in range(n_ranks)
    ]
    return [rank.wait() for rank in ranks]


def module(name: str) -> str:
    """The code that runs a module as `python -m name` does."""
    return f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"


def _serve(control: socket.socket) -> None:
    """Fork once per request; the first child waits for the second, which runs the code, and reports its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the first children are not waited for
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 3)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _die_with_parent()
            _report(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _report(request: dict[str, Any], stdout: int, stderr: int, connection: int) -> None:
    pid = os.fork()
    if pid == 0:
        _die_with_parent()
        os.close(connection)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os._exit(_execute(request))
    with socket.socket(fileno=connection) as reply:
        reply.send(str(pid).ljust(32).encode())
        _, status = os.waitpid(pid, 0)
        reply.send(str(os.waitstatus_to_exitcode(status)).ljust(32).encode())
    os._exit(0)


def _die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends: a rank that waits for others must not outlive its test."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def _execute(request: dict[str, Any]) -> int:
    """Run the code of a request; returns the exit code that the interpreter would give."""
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    # The streams of the server do not fit: they were opened on other kinds of files.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - flushed below
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    code = 0
    try:
        exec(compile(request["code"], "<request>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    for each in sys.argv[2:]:
        import_module(each)
    _serve(socket.socket(fileno=int(sys.argv[1])))
