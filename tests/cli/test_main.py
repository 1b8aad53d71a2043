"""The command line as a process: help without torch, mistakes in one line, exit codes."""

import os
import re
import signal
import subprocess
import sys

import pytest

import quadric.cli
from quadric.cli import COMMANDS, HELP_ALL
from tests import fresh_process
from tests.cli.terminal import only_complaint


def quadric_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quadric", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_the_commands_and_does_not_wait_for_torch():
    script = "import sys, quadric.cli; sys.argv = ['quadric', '--help']\n"
    script += "try: quadric.cli.main()\nexcept SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "demo" in result.stdout
    assert result.stdout.splitlines()[-1] == "0 False"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        quadric.cli.main([command, "--help"])
    assert stop.value.code == 0
    assert f"Example: quadric {command}" in capsys.readouterr().out


def test_an_unknown_flag_is_a_usage_error():
    result = quadric_command("train", "--stps", "3")
    assert result.returncode == 2
    assert "--steps" in result.stdout + result.stderr


@pytest.mark.slow
def test_a_mistake_is_one_line_and_no_traceback():
    program = fresh_process.module("quadric")
    result = fresh_process.run(program, "evaluate", "nowhere")
    assert result.returncode == 1
    assert only_complaint(result.stderr).startswith("quadric: no folder 'nowhere'; give a run")
    assert "Traceback" in fresh_process.run(program, "evaluate", "nowhere", environment={"QUADRIC_DEBUG": "1"}).stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["--json", "--no-json"])
def test_a_closed_pipe_ends_a_command_silently(form):
    assert with_closed_stdout("corpus", form) == (1, "")


# A page that is written when Python exits, and one that is written before.
@pytest.mark.parametrize("command", [[], ["corpus"], ["train"]], ids=" ".join)
def test_a_closed_pipe_ends_a_help_page_silently(command):
    code, stderr = with_closed_stdout(*command, "--help")
    assert stderr == ""
    assert code == 1


def with_closed_stdout(*arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a command whose reader is gone, as in `quadric --help | true`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        command = [sys.executable, "-m", "quadric", *arguments]
        buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # so that short pages are written when Python exits
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    return result.returncode, result.stderr


@pytest.mark.parametrize("columns", ["1", "5", "9", "20"])
def test_help_is_shown_on_the_narrowest_terminal(columns):
    result = quadric_command("train", "--help", COLUMNS=columns)
    assert result.returncode == 0
    assert "--n-latents" in result.stdout


def test_the_version_is_printed_alone():
    result = quadric_command("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{quadric.__version__}\n", "")


@pytest.mark.parametrize("command", ["train", "plan", "sweep", "harvest"])
def test_help_shows_groups_and_defaults_and_does_not_wait_for_torch(command):
    page = help_without_torch(command, "--help-all")
    groups = ["model", "text", "token rules"]
    groups += ["storage"] if command == "harvest" else ["dictionary", "training"]
    groups += ["output"] if command in ("train", "plan") else []
    for group in groups:
        assert f"─ {group} options ─" in page
    assert "(default: smollm2)" in page
    assert ("1024 small, 8192 large" in " ".join(page.replace("│", " ").split())) == (command != "harvest")
    assert "None" not in page.replace("None keeps the order", "")
    assert HELP_ALL not in page


@pytest.mark.parametrize("command", ["train", "plan", "sweep"])
def test_the_help_of_a_run_shows_the_flags_that_people_use_first_and_where_the_others_are(command):
    page = help_without_torch(command, "--help")
    flags = set(re.findall(r"^│ (--[\w-]+)", page, flags=re.MULTILINE))
    shown = {"--layer", "--model", "--corpus", "--prior", "--n-latents", "--steps", "--alpha", "--seeds", "--recipe"}
    assert shown < flags
    assert len(flags) <= 15
    assert page.splitlines()[-1] == "--help-all shows all flags."
    assert "--lens" not in flags


def help_without_torch(*arguments):
    """A help page, for which torch must not be imported."""
    script = "import sys, quadric.cli; sys.argv = ['quadric', *sys.argv[1:]]\n"
    script += "try: quadric.cli.main()\nexcept SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    command = [sys.executable, "-c", script, *arguments]
    page, _, last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip().rpartition("\n")
    assert last == "0 False"
    return page


def test_examples_stand_on_lines_of_their_own():
    lines = quadric_command("train", "--help").stdout.splitlines()
    assert "         quadric train --resume runs/first" in lines
    assert "         quadric train --resume runs/first --steps 400" in lines


def test_another_broken_pipe_is_told(monkeypatch, capsys):
    def run(self):
        raise BrokenPipeError(32, "the endpoint hung up")

    monkeypatch.setattr(COMMANDS["plan"], "run", run)
    assert quadric.cli.main(["plan", "--d-model", "16"]) == 1
    assert "the endpoint hung up" in capsys.readouterr().err


def test_public_names_resolve_and_unknown_ones_are_named():
    for name in quadric.__all__:
        assert getattr(quadric, name) is not None
        assert name in dir(quadric)
    with pytest.raises(AttributeError, match=r"no attribute 'Bilinear'; it offers .*BilinearAutoencoder"):
        _ = quadric.Bilinear


SLOW_TO_END = """
import os, signal, sys, threading, time
import quadric.cli

class Slow:
    def run(self):
        threading.Thread(target=time.sleep, args=(60,)).start()  # Python waits for it when it exits
        threading.Timer(0.2, lambda: (print("ending", flush=True), os.kill(os.getpid(), signal.SIGINT))).start()
        raise KeyboardInterrupt

quadric.cli._run = lambda arguments: Slow().run()
sys.exit(quadric.cli.main())
"""


def test_a_second_ctrl_c_prints_no_traceback():
    result = subprocess.run([sys.executable, "-c", SLOW_TO_END], capture_output=True, text=True, check=False)
    assert result.stderr == "quadric: interrupted\n"
    assert result.stdout == "ending\n"
    assert result.returncode == -signal.SIGINT
