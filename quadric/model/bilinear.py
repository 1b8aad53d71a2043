"""The bilinear autoencoder: a lens, L, R and a mixing C. Its latents are quadratic forms of the token.

z_i = xᵀW_i x = Σ_j C_ij (l_j·x)(r_j·x),    W_i = Σ_j C_ij ½(l_j r_jᵀ + r_j l_jᵀ),    X̂ = Σ_i z_i W_i

An affine lens puts x̃ = [u − μ; c] of the unit token u in the place of x. Training then minimizes the error of x̃x̃ᵀ;
`error` is that of uuᵀ whatever the lens, by the linear map back.

`step.PlainStep` has the loss in plain autograd, line by line; training uses its fast twin in `fast`.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.model.devices import Rows, rows_on
from quadric.model.dictionary import Autoencoder, Group, Moved, TokenErrors
from quadric.model.forms import Forms
from quadric.model.lens import AffineLens, Lens, PaperLens
from quadric.model.mixing import (
    Composite,
    Mixing,
    check_density,
    initial_matrix,
    mixing_from_state,
    with_density,
)
from quadric.model.objective import check_tokens, unit_tokens, working_dtype
from quadric.model.provenance import Provenance
from quadric.model.rank_one import leading_eigenpairs, rank_one_vectors
from quadric.model.settings import Bilinear, field_names, settings_class, settings_or_keywords
from quadric.model.step import PlainStep, step_class
from quadric.model.storage import check_shapes
from quadric.model.terms import Term, paper_loss

PAPER_MIXING_DENSITY = 0.001
TOKENS_AT_ONCE = 512
"""Tokens whose Krylov bases are held at once by `vectors_of`."""


class BilinearAutoencoder(Autoencoder):
    """A dictionary of quadratic forms, trained to reconstruct xxᵀ.

    Args:
        settings: `quadric.Atomic(…)`, `Composite(…)` or `Quadratic(…)`; or leave it out and give fields of it as
            keywords.
        d_model: width of the token vectors.
        prior: constraint on C where there are no settings: "atomic" (C = I), "composite" (only the largest entries) or
            "quadratic" (dense).
        mixing_density: share of C that exists (composite without settings; default 0.1 %); `set_mixing_density` lowers
            it. Below 1, every latent starts with atoms of its own and small weights on others; no k×h matrix is made.
        seed: of the initial weights.
        lens: map from tokens to the coordinates of the forms. Without it, settings with an affine lens wait for one
            that training estimates; otherwise it is the paper's, which changes nothing.
        block_size: atoms whose Gram matrix is held at once; by default all, up to 16,384.
        provenance: where the activations come from.
        device: of the parameters.
        dtype: of the parameters.
        tensors: weights to use instead of initial ones, as `tensors()` returns them.
        keywords: fields of the settings: `n_latents`, `n_hidden`, `symmetric`, `same_factors`, `init`.

    Example:
        >>> from quadric import BilinearAutoencoder
        >>> autoencoder = BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> autoencoder.encode(torch.ones(2, 8)).shape
        torch.Size([2, 16])
    """

    settings: Bilinear
    mixing: Mixing

    def __init__(
        self,
        settings: Bilinear | None = None,
        *,
        d_model: int,
        prior: str | None = None,
        mixing_density: float | None = None,
        seed: int = 0,
        lens: Lens | None = None,
        block_size: int | None = None,
        provenance: Provenance | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        tensors: dict[str, Tensor] | None = None,
        **keywords: Any,
    ) -> None:
        if settings is None:
            keywords["lens"] = "paper" if lens is None else lens.kind
            settings = _settings_of(prior or "composite", mixing_density, keywords)
        else:
            keywords |= {"prior": prior, "mixing_density": mixing_density}
            settings = settings_or_keywords(Bilinear, settings, keywords)
        super().__init__(settings, d_model, seed=seed, provenance=provenance)
        self.settings = settings.resolved(d_model)  # type: ignore[assignment]
        if lens is not None and (lens.d_model, lens.kind) != (d_model, settings.lens):
            raise ValueError(
                f"the {lens.kind} lens reads tokens of width {lens.d_model}, not d_model={d_model} with "
                f"lens={settings.lens!r}; estimate it anew"
            )
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size={block_size} is not positive; give the number of atoms to hold at once")
        self.n_hidden, self.block_size = settings.atoms, block_size
        self.symmetric, self.same_factors = settings.symmetric, settings.same_factors
        unknown = AffineLens.unknown(d_model) if settings.lens == "affine" else PaperLens(d_model)
        lens = unknown if lens is None else lens
        if tensors is None:
            self._set_initial(lens.width)
        else:
            self._set_stored(tensors)
        self.to(device=device, dtype=dtype)
        self.lens = lens.to(device)  # in its own precision

    def _set_initial(self, width: int) -> None:
        settings, generator = self.settings, torch.Generator().manual_seed(self.seed)
        self.left = nn.Parameter(initial_matrix(settings.init, (self.n_hidden, width), generator))
        if settings.same_factors:
            self.right = self.left
        else:
            self.right = nn.Parameter(initial_matrix(settings.init, (self.n_hidden, width), generator))
        self.mixing = settings.initial_mixing(generator)
        self.offset = nn.Parameter(torch.zeros(self.n_latents))

    def _set_stored(self, tensors: dict[str, Tensor]) -> None:
        self.left = nn.Parameter(tensors["left"])
        self.right = self.left if self.same_factors else nn.Parameter(tensors["right"])
        self.mixing = self.settings.stored_mixing(tensors)
        self.offset = nn.Parameter(tensors["offset"])

    @classmethod
    def from_tensors(
        cls, settings: Any, d_model: int, tensors: dict[str, Tensor], *, seed: int = 0
    ) -> "BilinearAutoencoder":
        check_shapes(tensors, tensor_shapes(settings, d_model, tensors))
        lens = AffineLens.from_tensors(tensors) if settings.lens == "affine" else None
        return cls(settings, d_model=d_model, lens=lens, seed=seed, tensors=tensors, dtype=tensors["left"].dtype)

    @property
    def prior(self) -> str:
        """Which constraint C has: atomic, composite or quadratic."""
        return self.settings.prior

    @property
    def mixing_density(self) -> float:
        """Share of C that may differ from zero."""
        return self.mixing.n_entries / (self.n_latents * self.n_hidden)

    def encode(self, tokens: Rows) -> Float[Tensor, "n k"]:
        """Latents z = x̃ᵀW̃x̃ of tokens as the lens shows them; `loss` and `density` scale x̃ to unit norm first.

        The paper's lens shows a token at its own scale, so z grows with ‖x‖². An affine lens shows the unit token.

        Args:
            tokens: activations (n, d).

        Returns:
            Signed latents (n, k).
        """
        tokens = rows_on(tokens, self.left.device)
        check_tokens(tokens, self.d_model)
        return self._latents(self.lens(tokens.to(working_dtype(tokens.dtype, self.left.dtype))))

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        return self._latents(self.seen(tokens))

    def seen(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        """x̃ of unit tokens, scaled to unit norm: what the forms read in training."""
        return tokens if isinstance(self.lens, PaperLens) else unit_tokens(self.lens(tokens))

    def latent_scale(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        shown: Tensor = self.lens(tokens)
        return shown.square().sum(-1, keepdim=True)

    def forms(self) -> Forms:
        return Forms(self.left, self.right, self.mixing, self.lens, self.symmetric)

    def at_own_scale(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """From latents of x̃ at unit norm (`encode_prepared`) to those of x̃ itself (`encode`), for unit tokens."""
        if isinstance(self.lens, PaperLens):
            return latents
        return latents * self.latent_scale(tokens)

    def _latents(self, inputs: Float[Tensor, "n w"]) -> Float[Tensor, "n k"]:
        return step_class().latents_of(self, inputs)

    def _own_loss(self) -> tuple[Term, ...]:
        return paper_loss()

    @property
    def _step_class(self) -> type[PlainStep]:
        return step_class()

    @property
    def rebuilds_products(self) -> bool:
        return True

    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        return step_class().errors_of(self, tokens, latents)

    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """û from the last column of X̃̂ with an affine lens; else √λ₁v₁ of X̂, with the sign for which x̂·x ≥ 0."""
        if isinstance(self.lens, PaperLens):
            return self.rank_one_vectors_of(tokens, latents)
        return self.decode(self.at_own_scale(tokens, latents))

    def decode(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """û of latents as `encode` gives them, from the last column of X̃̂ and hence affine in z; needs an affine lens.

        û = μ + Σ_i z_i b_i/(2c), where [b_i/2; a_i] is the last column of W̃_i. Without a lens there is no such column:
        xxᵀ does not determine the sign of x, and `rank_one_vectors_of` needs the token for it.
        """
        if isinstance(self.lens, PaperLens):
            raise ValueError(
                "latents of the paper's lens do not determine the sign of a token; call rebuild(tokens) instead"
            )
        left, right = self.factors(latents.dtype)
        weights = self.mixing.unmix(latents)
        return self.lens.vector_from(((weights * right[:, -1]) @ left + (weights * left[:, -1]) @ right) / 2)

    @torch.no_grad()
    def rebuild_by_rank_one(self, tokens: Rows) -> Float[Tensor, "n d"]:
        """Like `rebuild`, by the leading eigenvector of the reconstruction, with its sign taken from the token."""
        tokens = rows_on(tokens, self.left.device)
        unit = self.prepare(tokens)
        norms: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=unit.dtype)
        return self.rank_one_vectors_of(unit, self.encode_prepared(unit)) * norms

    def rank_one_vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """√λ₁v₁ of the reconstruction of uuᵀ, with the sign for which x̂·x ≥ 0: the paper's decoding, for any lens."""
        left, right = self.factors(tokens.dtype, raw=True)
        latents = self.at_own_scale(tokens, latents)
        parts = []
        for start in range(0, len(tokens), TOKENS_AT_ONCE):
            some = tokens[start : start + TOKENS_AT_ONCE]
            weights = self.mixing.unmix(latents[start : start + TOKENS_AT_ONCE])
            parts.append(rank_one_vectors(leading_eigenpairs(left, right, weights, some), some))
        return torch.cat(parts)

    def density_offset(self) -> Float[Tensor, " k"]:
        return self.offset

    def before_step(self, index: int, steps: int) -> Moved | None:
        """Lower the density of a composite C to the schedule's, until the support freezes for the last fifth."""
        if not isinstance(self.mixing, Composite) or is_mask_frozen(index, steps):
            return None
        # Entries that were dropped stay dropped: a run continued with more steps never thickens C again.
        start, target = _densities(self.settings)
        before = self._mixing_parameter()
        kept = self.set_mixing_density(min(mixing_density_at(index, steps, target, start), self.mixing_density))
        after = self._mixing_parameter()
        if after is before or before is None or after is None:
            return None
        rows, columns, _ = self.mixing.entries()
        return Moved(before, after, (rows, columns) if kept is None else (kept,))

    def parameter_groups(self) -> list[Group]:
        mixing = self._mixing_parameter()
        rest = [each for each in self.parameters() if each is not mixing]
        groups = [
            Group("matrices", [each for each in rest if each.ndim == 2]),
            Group("vectors", [each for each in rest if each.ndim != 2]),
        ]
        if mixing is not None:
            groups.append(Group("mixing", [mixing], self.mixing.pattern))
        return groups

    def _mixing_parameter(self) -> nn.Parameter | None:
        return next(self.mixing.parameters(), None)

    def facts(self) -> dict[str, float]:
        return {"mixing_density": self.mixing_density} if isinstance(self.mixing, Composite) else {}

    def set_mixing_density(self, density: float) -> Int[Tensor, " kept"] | None:
        """Keep only the globally largest |C| (composite only); this replaces the module `mixing`.

        The parameter of C stays the same object while C is stored densely, and is a new one once C is stored by its
        entries, below `SPARSE_BELOW`.

        Args:
            density: share of C to keep, in (0, 1].

        Returns:
            Positions, in the old order, of the entries of an already sparse C that stay; None where none were dropped
            or C was dense. An optimizer with a state per entry needs them.
        """
        check_density(density)
        if not isinstance(self.mixing, Composite):
            raise ValueError(f"the {self.prior} prior has no mixing density to set; choose prior='composite'")
        mixing, kept = with_density(self.mixing, density)
        self.mixing = mixing.train(self.training)
        return kept

    def restore(self, state: dict[str, Tensor]) -> None:
        """Like load_state_dict, but also if the state stores C in another way than this autoencoder does now."""
        if isinstance(self.mixing, Composite):
            prefix = "mixing."
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            self.mixing = mixing_from_state(own, self.mixing.shape).to(self.left.device)
        self.load_state_dict({**state, "right": state["left"]} if self.same_factors else state)

    @torch.no_grad()
    def kernel(self) -> Float[Tensor, "k k"]:
        """K = C G Cᵀ, the inner products between all latents' forms in the lens's coordinates."""
        return step_class().kernel_of(self, torch.promote_types(self.left.dtype, torch.float32))

    @torch.no_grad()
    def form(self, latent: int) -> Float[Tensor, "w w"]:
        """W_i, symmetric: the part of the form that data can see, whether or not the kernel is symmetric.

        With an affine lens, W̃ = [[Q, b/2], [bᵀ/2, a]] in the coordinates [v; c].
        """
        if not 0 <= latent < self.n_latents:
            raise IndexError(f"latent {latent} is outside 0 … {self.n_latents - 1}")
        left, right = self.factors(torch.promote_types(self.left.dtype, torch.float32))
        return Forms(left, right, self.mixing, self.lens).form(latent)

    @torch.no_grad()
    def reconstruct(self, tokens: Rows) -> Float[Tensor, "n d d"]:
        """X̂ = Σ_i z_i W_i, materialized: n·d² numbers, so for small batches only.

        With an affine lens it is mapped back to the reconstruction of uuᵀ.
        """
        weights = self.mixing.unmix(self.encode(tokens))
        left, right = self.factors(weights.dtype, raw=True)
        lifted = torch.einsum("nh,hd,he->nde", weights, left, right)
        return (lifted + lifted.mT) / 2 if self.symmetric else lifted

    def tensors(self) -> dict[str, Tensor]:
        saved: dict[str, Tensor] = {"left": self.left, "offset": self.offset}
        if not self.same_factors:
            saved["right"] = self.right
        return saved | self.mixing.tensors() | self.lens.tensors()

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, n_latents={self.n_latents}, n_hidden={self.n_hidden}, prior={self.prior!r}, "
            f"mixing_density={self.mixing_density:.4g}, symmetric={self.symmetric}, same_factors={self.same_factors}, "
            f"lens={self.lens.kind!r}"
        )

    def factors(self, dtype: torch.dtype, *, raw: bool = False) -> tuple[Tensor, Tensor]:
        """L and R; one and the same tensor if they are the same, which the kernels make use of."""
        left = self.left.to(dtype)
        left = self.lens.to_raw(left) if raw else left
        if self.same_factors:
            return left, left
        right = self.right.to(dtype)
        return left, self.lens.to_raw(right) if raw else right


def mixing_density_at(step: int, steps: int, target: float, initial: float = 1.0) -> float:
    """Geometric decay from the initial density to the target over the first half of training."""
    return float(initial * (target / initial) ** min(1.0, 2 * step / steps))


def is_mask_frozen(step: int, steps: int) -> bool:
    """Whether the support of C is fixed: during the last fifth of training."""
    return 5 * step >= 4 * steps


def _densities(settings: Bilinear) -> tuple[float, float]:
    """Density of C at the start and at the end of training."""
    return getattr(settings, "density_at_start", 1.0), getattr(settings, "mixing_density", 1.0)


def _settings_of(prior: str, mixing_density: float | None, keywords: dict[str, Any]) -> Bilinear:
    """The settings that the keywords of `BilinearAutoencoder` stand for."""
    kind = settings_class(prior)
    if not issubclass(kind, Bilinear):
        raise ValueError(f"prior={prior!r} is not a prior of C; choose atomic, composite or quadratic")
    known, n_latents = field_names(kind), keywords.get("n_latents")
    if "n_hidden" not in known and (n_hidden := keywords.pop("n_hidden", None)) not in (None, n_latents):
        raise ValueError(
            f"n_hidden={n_hidden} differs from n_latents={n_latents}, but an {prior} latent is one atom; leave "
            "n_hidden out, or choose the composite or quadratic prior"
        )
    if mixing_density is not None and "atoms_per_latent" not in known:
        raise ValueError(
            f"mixing_density={mixing_density} has no meaning for the {prior} prior; leave it out, or choose "
            "prior='composite'"
        )
    if "atoms_per_latent" in known and n_latents is not None:
        density = PAPER_MIXING_DENSITY if mixing_density is None else mixing_density
        check_density(density)
        n_hidden = keywords.get("n_hidden") or 2 * n_latents
        keywords = {"atoms_per_latent": density * n_hidden, "initial_density": density} | keywords
    return settings_or_keywords(Bilinear, None, keywords, kind)


def tensor_shapes(settings: Bilinear, d_model: int, tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that an autoencoder with these settings saves; C has the entries it has."""
    h, k, width = settings.atoms, settings.n_latents, d_model + (settings.lens == "affine")
    shapes: dict[str, tuple[int, ...]] = {"left": (h, width), "offset": (k,)}
    if settings.lens == "affine":
        shapes |= {"lens_centre": (d_model,), "lens_covariance": (d_model, d_model)}
        shapes |= {"lens_constant": (), "lens_n_tokens": ()}
    if not settings.same_factors:
        shapes["right"] = (h, width)
    if settings.prior == "quadratic":
        shapes["mixing"] = (k, h)
    if settings.prior == "composite":
        n_entries = len(tensors["mixing_values"]) if "mixing_values" in tensors else 0
        shapes |= dict.fromkeys(("mixing_rows", "mixing_columns", "mixing_values"), (n_entries,))
    return shapes
