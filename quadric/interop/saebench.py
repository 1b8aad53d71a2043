"""Dictionaries with the interface that SAEBench asks of custom SAEs. Neither sae_bench nor sae_lens is needed here.

    from quadric.interop.saebench import load
    sae = load(folder)                             # a folder of quadric.export(..., to="saebench")

SAEBench expects decoder vectors of unit norm. Where decoding is linear (an affine lens, or a linear dictionary),
latents are therefore measured in units of what they decode to. Where a dictionary reads unit tokens, these units are
those of tokens of length √d, as with SAELens's `constant_norm_rescale`: SAEBench's probes have a penalty on their
weights, so that the scale of latents matters.

    f_i = z_i ‖d_i‖ √d,    W_dec_i = d_i/‖d_i‖,    d_i = b_i/(2c) for a form with linear part b_i
    decode(f) = (f @ W_dec + b_dec) ‖x‖/√d

Without a lens no linear decoder exists. There f_i = z_i ‖W_i‖ √d, W_dec holds the leading eigenvectors of the forms, an
approximation that decoding does not use, and decoding takes the sign of each token from what was encoded last.

Encoding is never relu(x W_enc + b_enc) for forms: W_enc and b_enc are their linear and constant parts about the centre,
and `encode` adds the quadratic part. Latents are signed.
"""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric._io.files import read_versioned_json, write_json
from quadric._io.records import check_keys
from quadric.geometry import spectra
from quadric.geometry.dictionary import require_forms
from quadric.geometry.neighbours import form_kernel
from quadric.interop.carried import Carried, check_carried, decode, encode, is_linear, linear_decoder
from quadric.interop.hook_names import transformer_lens_name
from quadric.model import Dictionary, load_pretrained
from quadric.model.devices import exact
from quadric.model.forms import Directions, Forms

FORMAT = "quadric-saebench"
FORMAT_VERSION = 1
RECORD = "saebench.json"
REMEDY = "call encode on the tokens first, and decode latents of the same tokens"


@dataclass
class BenchConfig:
    """The fields that SAEBench reads of an SAE's config; SAEBench writes to it, so it is not frozen."""

    model_name: str
    d_in: int
    d_sae: int
    hook_layer: int
    hook_name: str
    architecture: str
    context_size: int | None = None
    hook_head_index: int | None = None
    apply_b_dec_to_input: bool = False
    finetuning_scaling_factor: bool = False
    activation_fn_str: str = ""
    activation_fn_kwargs: dict[str, Any] = field(default_factory=dict)
    prepend_bos: bool = True
    normalize_activations: str = "none"
    dtype: str = "float32"
    device: str = "cpu"
    model_from_pretrained_kwargs: dict[str, Any] = field(default_factory=dict)
    dataset_path: str = ""
    dataset_trust_remote_code: bool = False
    seqpos_slice: tuple[int | None, ...] = (None,)
    training_tokens: int = -100_000
    sae_lens_training_version: str | None = None
    neuronpedia_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields, as SAEBench stores them beside its results."""
        return asdict(self)


class BenchWeights(NamedTuple):
    """What SAEBench reads of a dictionary's weights, and the units of its latents."""

    w_enc: Float[Tensor, "d k"]
    b_enc: Float[Tensor, " k"]
    w_dec: Float[Tensor, "k d"]
    b_dec: Float[Tensor, " d"]
    units: Float[Tensor, " k"]
    """f = z · units."""


class BenchSAE(nn.Module):
    """A dictionary as SAEBench wants it.

    Tokens of any number of leading axes are encoded. A token that is zero in all entries, which is how SAEBench masks
    tokens, has zero latents and a zero reconstruction. What decoding needs of the tokens is kept from the last `encode`
    and used by any number of `decode`: SAEBench decodes twice to measure an ablation. Of two encodes, the last counts;
    in SAEBench's RAVEL that is the base token, in whose place the result is put.

    Args:
        autoencoder: Bilinear or linear. It is put into eval mode, and its parameters get no gradient from here on.
        model_name: Of the language model, for SAEBench.
        hook_name: Of the hook point in TransformerLens.
        hook_layer: Its layer.
    """

    def __init__(self, autoencoder: Dictionary, *, model_name: str, hook_name: str, hook_layer: int) -> None:
        super().__init__()
        self.autoencoder = autoencoder.eval().requires_grad_(False)
        weights = bench_weights(autoencoder)
        for name, values in zip(("W_enc", "b_enc", "W_dec", "b_dec"), weights, strict=False):
            setattr(self, name, nn.Parameter(values.float(), requires_grad=False))
        self.register_buffer("units", weights.units.float())
        self.cfg = BenchConfig(
            model_name=model_name,
            d_in=autoencoder.d_model,
            d_sae=autoencoder.n_latents,
            hook_layer=hook_layer,
            hook_name=hook_name,
            architecture=f"quadric_{autoencoder.kind}",
        )
        self._carried: Carried | None = None
        self._set_attributes(torch.device("cpu"), torch.float32)

    units: Tensor
    W_dec: Tensor

    def encode(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape k"]:
        """Latents in SAEBench's units; zero where a token is zero."""
        masked = (x == 0).all(-1, keepdim=True)
        # Any direction will do for a masked token: its latents are multiplied by 0.
        latents, carried = encode(self.autoencoder, torch.where(masked, torch.ones_like(x), x).float())
        self._carried = carried._replace(lengths=carried.lengths * ~masked.reshape(-1, 1))
        return (latents * self.units * ~masked).to(self.dtype)

    def decode(self, feature_acts: Float[Tensor, "*shape k"]) -> Float[Tensor, "*shape d"]:
        """The reconstruction, at the lengths of the tokens encoded last."""
        carried = check_carried(self._carried, feature_acts, REMEDY)
        latents = feature_acts.float() / torch.where(self.units > 0, self.units, 1)
        return decode(self.autoencoder, latents, carried).to(self.dtype)

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        return self.decode(self.encode(x))

    def to(self, *args: Any, **kwargs: Any) -> "BenchSAE":
        """Move to a device, and give results in a precision; weights stay in float32, which forms need."""
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device is not None:
            super().to(device)
        self._set_attributes(device or self.device, dtype or self.dtype)
        return self

    def _set_attributes(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.cfg.device, self.cfg.dtype = str(device), str(dtype).removeprefix("torch.")


def load(folder: str | Path) -> BenchSAE:
    """Load a folder of `quadric.export(..., to="saebench")`.

    Args:
        folder: The folder.

    Returns:
        A module for SAEBench, on the CPU.

    Example:
        >>> exported = quadric.export(ae, to="saebench", out="exported", model_name="my-model")
        >>> selected_saes = [("quadric_demo", load("exported"))]  # for run_eval of any evaluation
    """
    path = Path(folder) / RECORD
    if not path.is_file():
        raise FileNotFoundError(f"no {RECORD} in '{folder}'; make one with quadric export RUN --to saebench")
    values = read_versioned_json(path, FORMAT, FORMAT_VERSION, "an export for SAEBench", "export it again")
    check_keys(values, {"format", "format_version", "model_name", "hook_name", "hook_layer"}, str(path))
    place = {name: values[name] for name in ("model_name", "hook_name", "hook_layer")}
    return BenchSAE(load_pretrained(folder), **place)


def write_saebench(folder: Path, autoencoder: Dictionary, *, model_name: str | None = None) -> None:
    """Write the files that `load` reads; `model_name` is TransformerLens's, by default the recorded one."""
    record = bench_record(autoencoder, model_name)  # before anything is written
    autoencoder.save_pretrained(folder)
    write_json(folder / RECORD, record)


def load_lines(folder: Path) -> str:
    """Lines of Python that load the folder."""
    return f"from quadric.interop.saebench import load\nselected_saes = [({folder.name!r}, load({str(folder)!r}))]"


def bench_record(autoencoder: Dictionary, model_name: str | None) -> dict[str, Any]:
    """The contents of saebench.json: where in which model the dictionary belongs."""
    hook = transformer_lens_name(autoencoder.provenance.hook_point)
    model = model_name or autoencoder.provenance.model
    if hook is None or model is None:
        missing = "hook point" if hook is None else "language model"
        remedy = "train it from activations of a language model" if hook is None else "name it with --model-name"
        raise ValueError(f"the dictionary records no {missing}, and SAEBench needs one; {remedy}")
    place = {"model_name": model, "hook_name": hook.name, "hook_layer": hook.layer}
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **place}


@torch.no_grad()
def bench_weights(autoencoder: Dictionary) -> BenchWeights:
    """W_enc, b_enc, W_dec, b_dec and the units of the latents, see the module's docstring; in float64."""
    length = math.sqrt(autoencoder.d_model) if autoencoder.reads_unit_tokens else 1.0
    weights = _with_linear_decoder(autoencoder) if is_linear(autoencoder) else _without_lens(autoencoder)
    return weights._replace(b_enc=weights.b_enc * length, b_dec=weights.b_dec * length, units=weights.units * length)


def _with_linear_decoder(autoencoder: Dictionary) -> BenchWeights:
    """The weights for tokens of the length that the dictionary reads."""
    rows, bias = linear_decoder(autoencoder)
    units = torch.linalg.vector_norm(rows, dim=1)
    directions = torch.where(units[:, None] > 0, rows / units.clamp_min(1e-300)[:, None], _first_axis(rows))
    forms = autoencoder.forms()
    if isinstance(forms, Directions):
        encoder, constants = exact(forms.reads), exact(forms.constants)
    else:
        encoder, constants = _linear_parts(require_forms(autoencoder), rows)
    return BenchWeights((encoder * units[:, None]).mT, constants * units, directions, bias, units)


def _linear_parts(autoencoder: Forms, rows: Tensor) -> tuple[Tensor, Tensor]:
    """c·b_i and c²a_i of z = vᵀQv + c·bᵀv + c²a, with rows b_i/(2c)."""
    assert autoencoder.lens.constant is not None
    square = autoencoder.lens.constant.double().square()
    corners = autoencoder.left[:, -1].double() * autoencoder.right[:, -1].double()
    ones = torch.eye(autoencoder.n_latents, dtype=torch.float64, device=rows.device)
    constants = torch.cat([autoencoder.mixing.unmix(some) @ corners for some in torch.split(ones, 1024)])
    return 2 * square * rows, square * constants


def _without_lens(autoencoder: Dictionary) -> BenchWeights:
    """Leading eigenvectors, by |λ|, with their largest entry positive; an empty form gets the first axis."""
    directions = _first_axis(torch.zeros(autoencoder.n_latents, autoencoder.d_model, dtype=torch.float64)).clone()
    for batch in spectra(autoencoder):
        if not batch.eigenvalues.shape[1]:
            continue  # latents without atoms
        leading = batch.eigenvectors[:, :, 0].double().cpu()
        largest = leading.gather(1, leading.abs().argmax(1, keepdim=True))
        some = batch.eigenvalues[:, 0].cpu() != 0
        directions[batch.latents.cpu()[some]] = (leading * largest.sign())[some]
    units = form_kernel(autoencoder).diagonal().double().clamp_min(0).sqrt().cpu()
    zeros = torch.zeros(autoencoder.n_latents, dtype=torch.float64)
    return BenchWeights(directions.mT.clone(), zeros, directions, zeros[:1].expand(autoencoder.d_model).clone(), units)


def _first_axis(like: Tensor) -> Tensor:
    """A unit vector for latents that decode to nothing: SAEBench wants all rows of W_dec at unit norm."""
    return torch.eye(like.shape[1], dtype=like.dtype, device=like.device)[:1].expand_as(like)
