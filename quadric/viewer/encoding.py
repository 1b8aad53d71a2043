"""Encode arrays as a site stores them: byte planes in gzip'd safetensors."""

import gzip

import numpy as np
from jaxtyping import Float32, Int, Int32, UInt8
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as serialize_tensors

from quadric.viewer.schema import FINE_AXES, TOKENS_PER_LATENT, LatentRecord

_SCALARS = ("total_weight", "constant", "rest", "curvature", "measured_curvature")
_AS_THEY_ARE = (
    *("eigenvalues", "axis_quadratic", "axis_linear", "axis_kind", "contexts", "context_tokens"),
    *("neighbours", "overlaps", "quantiles", "lift_tokens", "lifts"),
)
COMPRESSION_LEVEL = 6
"""Level 9 takes several times as long and saves about 1 %."""


def pack(tensors: dict[str, np.ndarray]) -> bytes:
    """A gzip'd safetensors file; the same tensors give the same bytes."""
    plain = serialize_tensors({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})
    return gzip.compress(plain, compresslevel=COMPRESSION_LEVEL, mtime=0)


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Undo `pack`."""
    return parse_tensors(gzip.decompress(content))


def planes(numbers: Int[np.ndarray, "*shape"], width: int = 4) -> UInt8[np.ndarray, "width *shape"]:
    """Split integers into byte planes, lowest byte first; negative ones in two's complement."""
    low, high = -(1 << (8 * width - 1)), (1 << (8 * width)) - 1
    if numbers.size and not low <= int(numbers.min()) <= int(numbers.max()) <= high:
        raise ValueError(f"integers from {numbers.min()} to {numbers.max()} do not fit into {width} bytes")
    wide = numbers.astype("<i8")
    return np.ascontiguousarray(np.moveaxis(wide[..., None].view(np.uint8)[..., :width], -1, 0))


def quantized(
    values: Float32[np.ndarray, "rows m"], width: int
) -> tuple[UInt8[np.ndarray, "width rows m"], Float32[np.ndarray, " rows"]]:
    """Quantize each row to signed planes; its scale is its largest magnitude."""
    scales = np.abs(values).max(axis=1, initial=0.0).astype(np.float32)
    steps = (1 << (8 * width - 1)) - 1
    # float64: rounding a float32 quotient first could move a value to the next step.
    unit = values.astype(np.float64) / np.where(scales > 0, scales, 1)[:, None]
    return planes(np.rint(unit * steps).astype(np.int64), width), scales


def latent_tensors(record: LatentRecord) -> dict[str, np.ndarray]:
    """The tensors of a latent's file, under the names listed in web/src/data/schema.ts."""
    fine, fine_scales = quantized(record.coordinates.T[:FINE_AXES], 2)
    coarse, coarse_scales = quantized(record.coordinates.T[FINE_AXES:], 1)
    control, control_scales = quantized(record.control.T, 1)
    values, value_scale = quantized(record.values[None], 2)
    linear, linear_scale = quantized(record.linear[None], 2)
    return {
        **{name: getattr(record, name) for name in _AS_THEY_ARE},
        **{name: np.array([getattr(record, name)], dtype=np.float32) for name in _SCALARS},
        "latent": np.array([record.latent], dtype=np.int32),
        "rank": np.array([record.rank], dtype=np.int32),
        "places": planes(record.places),
        "tokens": planes(record.tokens),
        "values": values[:, 0],
        "value_scale": value_scale,
        "coordinates_fine": fine,
        "coordinates_coarse": coarse,
        "coordinate_scales": np.concatenate([fine_scales, coarse_scales]),
        "control": control,
        "control_scales": control_scales,
        "linear": linear[:, 0],
        "linear_scale": linear_scale,
        "clusters": planes(record.clusters + 1, 1),  # 0 for points in no cluster
    }


class TokenSearch:
    """The index behind the search by token: of each latent the tokens with the largest share of Σz² over its points."""

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size
        self._tokens: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []

    def add(self, tokens: Int32[np.ndarray, " m"], values: Float32[np.ndarray, " m"]) -> None:
        """Add the points of the next latent."""
        kinds, which = np.unique(tokens, return_inverse=True)
        energy = np.bincount(which, weights=np.square(values.astype(np.float64)), minlength=len(kinds))
        strongest = np.argsort(-energy, kind="stable")[:TOKENS_PER_LATENT]
        strongest = strongest[energy[strongest] > 0]
        self._tokens.append(kinds[strongest])
        self._shares.append(energy[strongest] / energy.sum() if len(strongest) else energy[strongest])

    def tensors(self) -> dict[str, np.ndarray]:
        """The latents that each token drives, by share descending; `counts` says how many there are per token."""
        tokens = np.concatenate([*self._tokens, np.zeros(0, dtype=np.int32)]).astype(np.int64)
        shares = np.concatenate([*self._shares, np.zeros(0)])
        latents = np.repeat(np.arange(len(self._tokens)), [len(each) for each in self._tokens])
        order = np.lexsort((latents, -shares, tokens))
        counts = np.bincount(tokens, minlength=self.vocabulary_size)
        return {
            "counts": planes(counts),
            "latents": planes(latents[order]),
            "shares": planes(np.rint(shares[order] * 255).astype(np.int64), 1)[0],
        }
