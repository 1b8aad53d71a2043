"""Printed commands work as printed, and SIGTERM ends a command as Ctrl-C does."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quadric.cli import Terminated, terminable
from quadric.cli.output import this_command


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An executable named quadric in a virtual environment below the working directory."""
    path = tmp_path / ".venv/bin/quadric"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho ran\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [str(path), "demo"])
    return path


def runs(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout.strip()


def test_a_program_off_the_path_is_named_by_its_relative_path(program: Path) -> None:
    assert this_command() == ".venv/bin/quadric"
    assert runs(this_command()) == "ran"


def test_a_program_on_the_path_is_named_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert this_command() == "quadric"
    assert runs(this_command()) == "ran"


def test_another_program_of_that_name_is_not_mistaken_for_this_one(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other/quadric"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    assert runs(this_command()) == "ran"


def test_a_program_elsewhere_is_named_by_its_whole_path(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with space").mkdir()
    moved = program.rename(tmp_path / "with space/quadric")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "argv", [str(moved)])
    assert this_command() == f"'{moved}'"
    assert runs(this_command()) == "ran"


def test_python_m_quadric_is_named_like_that(tmp_path: Path) -> None:
    script = "import sys; from quadric.cli.output import this_command; print(this_command())"
    (tmp_path / "__main__.py").write_text(script)
    result = subprocess.run([sys.executable, str(tmp_path / "__main__.py")], capture_output=True, text=True, check=True)
    command = result.stdout.strip()
    assert command.endswith(" -m quadric")
    version = subprocess.run(f"{command} --version", shell=True, capture_output=True, text=True, check=True)
    assert version.stdout.strip() == runs(f"{sys.executable} -m quadric --version")


def test_the_demo_ends_with_commands_that_work_as_printed(program: Path, tmp_path: Path) -> None:
    demo = tmp_path / "runs/demo"
    (demo / "site/data").mkdir(parents=True)
    (demo / "site/data/site.json").write_text("{}")
    (demo / "demo.json").write_text('[{"latent": 7, "label": "days", "shape": "slab", "importance": 2.5}]')
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom quadric.cli import main\nsys.exit(main())\n")
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    shown = subprocess.run([str(program), "demo"], capture_output=True, text=True, check=True, env=environment).stdout
    commands = [line.split(maxsplit=2)[-1] if line.startswith("How") else line.split(":", 1)[1].strip()
                for line in shown.splitlines() if ".venv/bin/quadric" in line]  # fmt: skip
    commands = [command[command.index(".venv") :] for command in commands]
    assert [command.split()[1] for command in commands] == ["view", "evaluate", "report"]
    for command in commands:
        subprocess.run(f"{command} --help", shell=True, capture_output=True, check=True, env=environment)


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
