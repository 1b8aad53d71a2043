"""Which tokens are kept: explicit rules that are recorded in provenance, with counts of what they drop.

Padding is always dropped. By default special tokens, including BOS, and attention-sink outliers are dropped too. An
attention sink is a token that draws much of the model's attention and whose norm is tens or hundreds of times larger
than that of other tokens.

The norm of a token is compared with the median norm of its own sequence, over the tokens that the other rules keep. The
result depends only on the sequence, so it is the same live and from disk, before and after a resume, and on any number
of ranks. A token that is an outlier at one hook point is dropped at all of them, because row i of every hook point must
be the same token.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric.data.forward import groups_of
from quadric.data.settings import TokenRules
from quadric.data.tokenizer import Tokenizer


class ActivationError(ValueError):
    """A vector that an autoencoder cannot use: zero or not finite."""


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """How many positions the language model computed, and how many were kept or dropped by each rule."""

    positions: int = 0
    padding: int = 0
    """Computed in vain: what sequences of different lengths in one group were padded with."""
    bos: int = 0
    """BOS tokens dropped."""
    special: int = 0
    """Other special tokens dropped."""
    outliers: int = 0
    """Tokens that are an outlier at one or more hook points; dropped or clipped, according to the rule."""
    outliers_at: dict[str, int] = field(default_factory=dict)
    """Outliers per hook point."""
    kept: int = 0

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        numbers = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("positions", "padding", "bos", "special", "outliers", "kept")
        }
        hooks = dict.fromkeys([*self.outliers_at, *other.outliers_at])
        at = {name: self.outliers_at.get(name, 0) + other.outliers_at.get(name, 0) for name in hooks}
        return TokenCounts(**numbers, outliers_at=at)


@dataclass(frozen=True)
class Sequences:
    """Input of one forward pass."""

    tokens: Int[Tensor, "s l"]
    documents: Int[Tensor, "s l"]
    mask: Bool[Tensor, "s l"]
    """False on padding."""
    first: int
    """Index of the first sequence in its epoch."""


class KeptTokens(NamedTuple):
    activations: dict[str, Float[Tensor, "n d"]]
    mask: Bool[Tensor, "s l"]
    counts: TokenCounts


def keep_tokens(
    activations: dict[str, Float[Tensor, "s l d"]],
    sequences: Sequences,
    rules: TokenRules,
    tokenizer: Tokenizer,
) -> KeptTokens:
    """The vectors that the rules keep, in float32, and counts of those they drop."""
    bos, special = _bos_and_special(sequences, rules, tokenizer)
    keep = sequences.mask.clone()
    keep &= ~bos if rules.bos == "drop" else True
    keep &= ~special if rules.special_tokens == "drop" else True
    limits = {name: _outlier_limits(vectors, keep, sequences, name, rules) for name, vectors in activations.items()}
    at = {name: limit.excess & keep for name, limit in limits.items()}
    outliers = torch.stack(list(at.values())).any(dim=0)
    computed = sum(group.positions for group in groups_of(sequences.mask))
    counts = TokenCounts(
        positions=computed,
        padding=computed - int(sequences.mask.sum()),
        bos=int(bos.sum()) if rules.bos == "drop" else 0,
        special=int(special.sum()) if rules.special_tokens == "drop" else 0,
        outliers=int(outliers.sum()),
        outliers_at={name: int(excess.sum()) for name, excess in at.items()},
        kept=int((keep & ~outliers).sum() if rules.outliers == "drop" else keep.sum()),
    )
    if rules.outliers == "drop":
        keep &= ~outliers
    rows = {name: vectors[keep].float() for name, vectors in activations.items()}
    if rules.outliers == "clip":
        for name, limit in limits.items():
            rows[name] *= torch.where(limit.excess, limit.limits / limit.norms, 1.0)[keep].unsqueeze(1)
    return KeptTokens(rows, keep, counts)


class _OutlierLimits(NamedTuple):
    norms: Float[Tensor, "s l"]
    limits: Float[Tensor, "s 1"]
    excess: Bool[Tensor, "s l"]


def _bos_and_special(
    sequences: Sequences, rules: TokenRules, tokenizer: Tokenizer
) -> tuple[Bool[Tensor, "s l"], Bool[Tensor, "s l"]]:
    bos = torch.zeros_like(sequences.mask)
    # Only the prepended token: in GPT-2 the same token also separates documents and then counts as special.
    bos[:, 0] = rules.bos_of(tokenizer) is not None
    special_ids = torch.tensor(sorted(tokenizer.special), device=sequences.tokens.device, dtype=torch.int64)
    return bos, torch.isin(sequences.tokens, special_ids) & sequences.mask & ~bos


def _outlier_limits(
    vectors: Float[Tensor, "s l d"],
    keep: Bool[Tensor, "s l"],
    sequences: Sequences,
    name: str,
    rules: TokenRules,
) -> _OutlierLimits:
    norms = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float32)
    usable = torch.isfinite(norms) & (norms > 0)
    if not bool((usable | ~keep).all()):
        raise ActivationError(_place_of_bad_vector(norms, keep & ~usable, sequences, name))
    if rules.outliers == "keep":
        return _OutlierLimits(norms, torch.full_like(norms[:, :1], torch.inf), torch.zeros_like(keep))
    medians = norms.masked_fill(~keep, torch.nan).nanmedian(dim=1, keepdim=True).values
    limits = rules.outlier_factor * medians
    return _OutlierLimits(norms, limits, norms > limits)


def _place_of_bad_vector(norms: Float[Tensor, "s l"], bad: Bool[Tensor, "s l"], sequences: Sequences, name: str) -> str:
    sequence, position = bad.nonzero()[0].tolist()
    value = "zero" if norms[sequence, position] == 0 else "not finite"
    return (
        f"the activation at {name} is {value} at document {int(sequences.documents[sequence, position])}, "
        f"sequence {sequences.first + sequence}, position {position} "
        f"(token {int(sequences.tokens[sequence, position])}); "
        "run the model in float32, or check its weights"
    )
