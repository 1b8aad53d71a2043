"""`quadric train` as its user sees it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import quadric
from quadric.cli import main
from quadric.model import load_pretrained
from quadric.run.folder import autoencoder_folders
from quadric.run.telemetry import read_metrics
from tests import fresh_process
from tests.cli.terminal import only_complaint, run_on_a_terminal
from tests.tiny_runs import flags, make_tiny_world, train_command

pytestmark = pytest.mark.slow  # whole commands

QUADRIC = fresh_process.module("quadric")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def reference(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unbroken run of two autoencoders."""
    folder = tmp_path_factory.mktemp("runs") / "reference"
    assert main(train_command(world, folder, "--prior", "composite", "topk")) == 0
    return folder


def tensors(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {name: load_pretrained(path).state_dict() for name, path in autoencoder_folders(folder).items()}


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = tensors(one), tensors(other)
    assert first.keys() == second.keys()
    for name, state in first.items():
        for key, value in state.items():
            assert torch.equal(value, second[name][key]), (name, key)


def python(*command: str, **options) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], text=True, capture_output=True, env=environment, **options)


def test_a_run_describes_itself(reference: Path, world: Path) -> None:
    recorded = json.loads((reference / "run.json").read_text())
    assert recorded["training"]["steps"] == 8
    composite = next(path for name, path in autoencoder_folders(reference).items() if "composite" in name)
    loaded = load_pretrained(composite)
    assert loaded.provenance.model == "tiny-llama"
    assert loaded.provenance.hook_point == "resid_pre.2"
    assert loaded.provenance.corpus == "text.txt"
    assert loaded.mixing_density == pytest.approx(0.1, abs=0.01)
    lines = read_metrics(reference)
    assert [line["step"] for line in lines] == [step for step in range(1, 9) for _ in range(2)]
    assert all(0 < line["tokens"] <= 4 * 32 and line["error"] > 0 for line in lines)


def test_what_it_says(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train_command(world, tmp_path / "run")) == 0
    captured = capsys.readouterr()
    assert "Training 1 autoencoder(s)" in captured.err
    assert "8 of 8 steps" in captured.err
    assert "tokens/s" in captured.err
    assert f"quadric.load('{tmp_path / 'run'}')" in captured.out.replace("\n", "")
    assert quadric.load(tmp_path / "run").n_latents == 24
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "Nothing is left to do" in capsys.readouterr().out


def test_a_run_of_two_on_a_real_terminal(world: Path, tmp_path: Path) -> None:
    command = train_command(world, tmp_path / "run", "--prior", "composite", "topk")
    code, shown = run_on_a_terminal(QUADRIC, *command)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "Last batch" in shown
    assert autoencoder_folders(tmp_path / "run").keys() == {
        name for name in autoencoder_folders(tmp_path / "run") if name in shown
    }


def test_each_of_several_has_the_bits_of_being_trained_alone(world: Path, reference: Path, tmp_path: Path) -> None:
    assert main(train_command(world, tmp_path / "alone", "--prior", "topk")) == 0
    ((name, alone),) = tensors(tmp_path / "alone").items()
    together = tensors(reference)[name]
    assert all(torch.equal(value, together[key]) for key, value in alone.items())


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits_and_the_same_metrics(
    world: Path, reference: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    command = train_command(world, folder, "--prior", "composite", "topk")
    dying = (
        "import os, signal, sys; from quadric.run import telemetry; from quadric.cli import main\n"
        "write = telemetry._LineWriter.__call__\n"
        "def call(self, learner):\n"
        "    if learner.step_index == int(sys.argv[1]) + 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(self, learner)\n"
        "telemetry._LineWriter.__call__ = call\n"
        "main(sys.argv[2:])"
    )
    assert fresh_process.run(dying, "3", *command).returncode == -signal.SIGKILL
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "autoenc')  # what a process that dies while it writes leaves behind
    again = fresh_process.run(dying, "6", "train", "--resume", folder)
    assert again.returncode == -signal.SIGKILL
    resumed = fresh_process.run(QUADRIC, "train", "--resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert "continuing after step 6 of 8" in resumed.stderr
    assert_same_bits(folder, reference)
    assert read_metrics(folder) == read_metrics(reference)


def test_a_moved_run_goes_on_with_its_moved_model_and_text_and_with_no_others(
    world: Path, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from quadric.cli.train import Train  # noqa: F401, the command exists under that name

    there = make_tiny_world(tmp_path / "elsewhere")
    run = tmp_path / "elsewhere" / "run"
    assert main(train_command(there, run, "--prior", "composite", "topk", "--steps", "8")) == 0
    for path in autoencoder_folders(run).values():  # as if it had not come to an end
        (path / "config.json").unlink()
    newest = sorted((run / "checkpoints").iterdir())[-1]
    (newest / "state.json").unlink()
    moved = (tmp_path / "elsewhere").rename(tmp_path / "here")
    run = moved / "run"
    assert main(["train", "--resume", str(run)]) == 1
    assert "tiny-llama" in capsys.readouterr().err
    (moved / "other.txt").write_text("Another text altogether. " * 200)
    places = ["--model", str(moved / "tiny-llama"), "--corpus"]
    assert main(["train", "--resume", str(run), *places, str(moved / "other.txt")]) == 1
    assert "began with other activations (corpus: stored" in capsys.readouterr().err
    assert main(["train", "--resume", str(run), *places, str(moved / "text.txt")]) == 0
    assert "skipped checkpoint step-00000008" in capsys.readouterr().err
    assert_same_bits(run, reference)


def test_a_cache_gives_a_run_too(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / "cache"
    harvest = ["harvest", *flags(world), "--layers", "1,2", "--tokens", "1500", "--out", str(cache)]
    assert main(harvest) == 0
    assert main(train_command(world, tmp_path / "run", "--cache", str(cache))) == 0
    assert quadric.load(tmp_path / "run").provenance.hook_point == "resid_pre.2"
    capsys.readouterr()
    other = make_tiny_world(tmp_path / "other")
    (other / "tiny-llama" / "more.bin").write_bytes(b"another model")
    assert main(train_command(other, tmp_path / "none", "--cache", str(cache))) == 1
    assert "model_revision: stored" in capsys.readouterr().err
    assert main(train_command(world, tmp_path / "none", "--cache", str(cache), "--steps", "100")) == 1
    assert "give epochs=" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--steps", "4000"], "give epochs="),
        (["--n-latents", "0"], "n_latents=0"),
        (["--prior", "composite", "--n-hidden", "-3"], "n_hidden=-3"),
        (["--atoms-per-latent", "49"], "atoms_per_latent=49 is outside (0, 48]"),
        (["--loss", "density.warmup=9"], "density.warmup=9 exceeds steps=8"),
        (["--loss", "densty=0.1"], "has the term 'densty', which is unknown (error, density,"),
        (["--prior", "composte"], "'composte' is not a known kind of dictionary (atomic, composite,"),
        (["--import", "nothing.py"], "nothing.py: there is no such file"),
        (["--learning-rate", "0"], "learning_rate=0.0 must exceed 0"),
        (["--learning-rate-decay", "2"], "learning_rate_decay=2.0 is outside [0, 1]"),
        (["--layer", "77"], "names layer 77"),
        (["--sequences-per-step", "0"], "sequences_per_step=0"),
        (["--prior", "topk", "--n-active", "25"], "n_active=25"),
        (["--cache", "nowhere"], "nowhere"),
        (["--tensorboard", "--corpus", "nothing.txt"], "nothing.txt"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(
    more: list[str], message: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(train_command(world, tmp_path / "run", *more)) == 1
    assert message in only_complaint(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_run_that_exists_is_not_touched(world: Path, reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    assert main(train_command(world, reference)) == 1
    assert "exists and is not empty" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}


def test_a_flag_that_resuming_would_ignore_is_refused(reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(reference), "--alpha", "0.5", "--n-latents", "9", "--steps", "9"]) == 1
    assert "--alpha, --n-latents cannot be given with --resume" in capsys.readouterr().err


def test_a_finished_run_is_trained_for_longer(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(train_command(world, run)) == 0
    assert main(["train", "--resume", str(run), "--steps", "12"]) == 0
    assert "continuing after step 8 of 12" in capsys.readouterr().err
    assert [line["step"] for line in read_metrics(run)] == list(range(1, 13))
    recorded = json.loads((run / "run.json").read_text())
    assert (recorded["training"]["steps"], recorded["continued_from"]) == (12, [8])
    assert main(["train", "--resume", str(run), "--steps", "6"]) == 1
    assert "steps=6 is fewer than the 12" in only_complaint(capsys.readouterr().err)


OWN_KIND = """
from dataclasses import dataclass
import quadric

class Large(quadric.Term):
    name = "large"

    def __call__(self, step):
        return step.mean(step.z.abs().amax(1))

@quadric.register("mine")
@dataclass(frozen=True, kw_only=True)
class Mine(quadric.Atomic):
    pass
"""


def test_a_kind_and_a_term_of_the_users_own_are_trained_and_resumed(world: Path, tmp_path: Path) -> None:
    own, run = tmp_path / "own.py", tmp_path / "run"
    own.write_text(OWN_KIND)
    imported = ("--import", str(own))
    command = train_command(world, run, "--prior", "mine", "--loss", "large=0.01", *imported)
    started = fresh_process.run(QUADRIC, *command)
    assert started.returncode == 0, started.stderr
    assert json.loads((run / "run.json").read_text())["cells"][0]["loss"][-1] == {"name": "large", "weight": 0.01}
    assert all(line["large"] > 0 for line in read_metrics(run))
    longer = ("train", "--resume", str(run), "--steps", "12")
    unknown = fresh_process.run(QUADRIC, *longer)
    assert unknown.returncode == 1
    assert "'mine' is not a known kind" in (complaint := only_complaint(unknown.stderr))
    assert "--import my_kind.py" in complaint
    resumed = fresh_process.run(QUADRIC, *longer, *imported)
    assert resumed.returncode == 0, resumed.stderr
    assert "continuing after step 8 of 12" in resumed.stderr


def test_it_says_what_it_does_before_torch_is_there() -> None:
    watch = (
        "import builtins, sys, quadric.cli\n"
        "own = builtins.__import__\n"
        "def stop_at_torch(name, *rest):\n"
        "    if name.split('.')[0] == 'torch': raise KeyboardInterrupt\n"
        "    return own(name, *rest)\n"
        "builtins.__import__ = stop_at_torch\n"
        "sys.exit(quadric.cli.main(sys.argv[1:]))"
    )
    for command, words in {
        ("train", "--model", "gpt2"): "quadric train: preparing to read gpt2 …",
        ("train", "--resume", "runs/x"): "quadric train: continuing runs/x …",
        ("sweep", "--out", "runs/y"): "quadric sweep: preparing runs/y …",
        ("evaluate", "runs/x"): "quadric evaluate: loading runs/x …",
        ("site", "runs/x"): "quadric site: loading runs/x …",
        ("concepts", "runs/x"): "quadric concepts: loading runs/x …",
    }.items():
        result = python("-c", watch, *command)
        assert (result.returncode, result.stderr.splitlines()) == (130, [words, "quadric: interrupted"])


@pytest.mark.slow
def test_two_processes_train_what_one_trains(world: Path, tmp_path: Path) -> None:
    # One process alone reads the same 4 sequences a step as two that read 2 each.
    assert main(train_command(world, tmp_path / "one", "--prior", "composite", "topk")) == 0
    command = train_command(world, tmp_path / "two", "--prior", "composite", "topk")
    job, other = fresh_process.run_job(QUADRIC, *command)
    assert (job.returncode, other.returncode) == (0, 0), job.stderr + other.stderr
    assert job.stderr.count("8 of 8 steps") == 1
    assert job.stderr.count("quadric train: preparing") == 1
    assert "quadric train" not in other.stderr
    alone, shared = read_metrics(tmp_path / "one"), read_metrics(tmp_path / "two")
    assert [line["tokens"] for line in alone] == [line["tokens"] for line in shared]
    for one, two in zip(alone, shared, strict=True):
        assert one["error"] == pytest.approx(two["error"], rel=1e-3)
        assert one["density"] == pytest.approx(two["density"], rel=1e-3)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_job_with_a_message_and_the_job_resumes(world: Path, tmp_path: Path) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    dying = str(Path(__file__).with_name("dying_rank.py"))
    # From a cache: torchrun starts new interpreters, which need not import transformers then.
    cached = ("--cache", str(tmp_path / "cache"))
    assert main(["harvest", *flags(world), "--layers", "2", "--tokens", "1500", "--out", cached[1]]) == 0
    job = python(*torchrun, dying, "5", *train_command(world, tmp_path / "run", *cached), timeout=300)
    assert job.returncode != 0
    assert "Signal 9 (SIGKILL) received" in job.stderr
    resumed = fresh_process.run_job(QUADRIC, "train", "--resume", str(tmp_path / "run"))
    errors = "".join(rank.stderr for rank in resumed)
    assert [rank.returncode for rank in resumed] == [0, 0], errors
    assert "continuing after step 4 of 8" in errors
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == list(range(1, 9))
