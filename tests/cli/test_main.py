"""The command line as a process: help without torch, mistakes in one line, exit codes."""

import os
import subprocess
import sys

import pytest

import quadric.cli
from quadric.cli import COMMANDS


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
def test_help_of_a_command_shows_an_example(command):
    result = quadric_command(command, "--help")
    assert result.returncode == 0
    assert f"Example: quadric {command}" in result.stdout


def test_an_unknown_flag_is_a_usage_error():
    result = quadric_command("train", "--stps", "3")
    assert result.returncode == 2
    assert "--steps" in result.stdout + result.stderr


@pytest.mark.slow
def test_a_mistake_is_one_line_and_no_traceback():
    result = quadric_command("evaluate", "nowhere")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("quadric: no folder 'nowhere'; give a run")
    assert "Traceback" in quadric_command("evaluate", "nowhere", QUADRIC_DEBUG="1").stderr


@pytest.mark.parametrize("form", ["--json", "--no-json"])
@pytest.mark.slow
def test_a_reader_who_leaves_early_is_no_mistake_to_speak_of(form):
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ["plan", "--d-model", "16", "--n-latents", "8", "--batch-tokens", "64", "--steps", "3", form]
    with os.fdopen(writer, "w") as output:
        command = [sys.executable, "-m", "quadric", *arguments]
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "")


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
