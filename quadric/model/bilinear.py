"""The bilinear autoencoder: a lens, L, R and a mixing C. Its latents are quadratic forms of the token.

z_i = xᵀW_i x = Σ_j C_ij (l_j·x)(r_j·x),    W_i = Σ_j C_ij ½(l_j r_jᵀ + r_j l_jᵀ),    X̂ = Σ_i z_i W_i

An affine lens puts x̃ = [u − μ; c] of the unit token u in the place of x. Training then minimizes the error of x̃x̃ᵀ;
`error` is that of uuᵀ whatever the lens, by the linear map back.

`reference_loss`, below the class, is the whole loss in plain autograd; `loss` computes the same with `kernels`.
"""

from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.model.checks import check_choice, check_positive, check_seed, check_weight
from quadric.model.dictionary import Autoencoder, TokenErrors
from quadric.model.fast.blocked import blocked_quadratic_form
from quadric.model.fast.kernel import atom_gram, kernel_overlap
from quadric.model.fast.latents import kept_latents, latent_norms, latent_sums, strongest
from quadric.model.fast.lifted import (
    few_latents_form,
    form_norms,
    lifted_overlap,
    lifted_reconstruction,
    product_width,
    unpacked,
)
from quadric.model.fast.shared import Share, gram_rows, sum_of_parts
from quadric.model.lens import AffineLens, Lens, LensKind, PaperLens
from quadric.model.mixing import (
    SPARSE_BELOW,
    Composite,
    Dense,
    Entries,
    Identity,
    Masked,
    Mixing,
    Prior,
    Sparse,
    check_density,
    mixing_from_entries,
    mixing_from_state,
    scattered_mixing,
    with_density,
)
from quadric.model.objective import (
    LossSums,
    LossTerms,
    check_tokens,
    density_norms,
    kernel_error,
    prepare_tokens,
    quadratic_form,
    unit_tokens,
    working_dtype,
)
from quadric.model.provenance import Provenance
from quadric.model.rank_one import leading_eigenpairs, rank_one_vectors
from quadric.model.storage import check_shapes

if TYPE_CHECKING:
    import quadric.interventions

Initialization = Literal["orthogonal", "xavier"]

PAPER_MIXING_DENSITY = 0.001
LARGEST_DENSE_GRAM = 16_384
"""Largest number of atoms whose Gram matrix is held in memory (1 GiB in float32); beyond, `error_path` decides."""
DEFAULT_BLOCK = 4_096
LARGEST_DENSE_MIXING = 2**30
"""Most entries of a C that is initialized whole (4 GiB in float32, and several times that in training)."""
TOKENS_AT_ONCE = 512
"""Tokens whose Krylov bases are held at once by `vectors_of`."""


@dataclass(frozen=True, kw_only=True)
class BilinearArchitecture:
    """Sizes and constraints of a bilinear autoencoder.

    Example:
        >>> ae.architecture.prior, ae.architecture.n_latents, ae.architecture.lens
        ('composite', 24, 'affine')
    """

    d_model: int
    n_latents: int
    n_hidden: int
    prior: Prior
    mixing_density: float | None
    """Share of C that may differ from zero; None unless the prior is composite."""
    symmetric: bool
    tied: bool
    init: Initialization
    seed: int
    lens: LensKind = "paper"

    def __post_init__(self) -> None:
        for name in ("d_model", "n_latents", "n_hidden"):
            check_positive(name, getattr(self, name))
        check_choice("prior", self.prior, get_args(Prior))
        check_choice("lens", self.lens, get_args(LensKind))
        check_choice("init", self.init, get_args(Initialization))
        if self.prior == "atomic" and self.n_hidden != self.n_latents:
            raise ValueError(
                f"n_hidden={self.n_hidden} differs from n_latents={self.n_latents}, but an atomic latent is one "
                "atom; leave n_hidden out, or choose the composite or quadratic prior"
            )
        if self.prior == "composite":
            check_density(self.mixing_density)
        elif self.mixing_density is not None:
            raise ValueError(
                f"mixing_density={self.mixing_density} has no meaning for the {self.prior} prior; leave it out, or "
                "choose prior='composite'"
            )

    @property
    def width(self) -> int:
        """Number of coordinates of x̃, which the forms read."""
        return self.d_model + (self.lens == "affine")


ErrorPath = Literal["kernel", "blocked", "lifted"]
"""How zᵀKz is computed: with K in memory, from blocks of G, or as ‖X̂‖² in the product space."""


def error_path(*, n_latents: int, n_hidden: int, width: int, is_sparse: bool, symmetric: bool = True) -> ErrorPath:
    """The way that a dictionary of this size computes its error.

    K is held in memory for up to 16,384 atoms. Beyond, blocks of G take 3h² FLOPs per token, and the product space 6kp
    (less if a token is reconstructed from a few latents); the smaller number decides. The product space needs the
    entries of C.

    Args:
        n_latents: k.
        n_hidden: h.
        width: coordinates that the forms read.
        is_sparse: whether C is stored by its entries, or is the identity.
        symmetric: whether forms are symmetric, p = w(w+1)/2; otherwise p = w².

    Returns:
        "kernel", "blocked" or "lifted".

    Example:
        >>> error_path(n_latents=65_536, n_hidden=131_072, width=129, is_sparse=True)
        'lifted'
    """
    if n_hidden <= LARGEST_DENSE_GRAM:
        return "kernel"
    fits = is_sparse and 2 * n_latents * product_width(width, symmetric) <= n_hidden**2
    return "lifted" if fits else "blocked"


def default_hidden(n_latents: int, prior: Prior) -> int:
    """The paper's two atoms per latent, or one if the prior is atomic."""
    return n_latents if prior == "atomic" else 2 * n_latents


class BilinearAutoencoder(Autoencoder):
    """A dictionary of quadratic forms, trained to reconstruct xxᵀ.

    Args:
        d_model: width of the token vectors.
        n_latents: size of the dictionary.
        n_hidden: number of atoms; by default two per latent as in the paper, or one if the prior is atomic.
        prior: constraint on C: "atomic" (C = I), "composite" (only the largest entries) or "quadratic" (dense).
        mixing_density: share of C that exists (composite only; default 0.1 %); `set_mixing_density` lowers it. Below
            1, every latent starts with atoms of its own and small weights on others; no k×h matrix is made.
        symmetric: False measures the error with the paper's printed kernel, whose atoms are l rᵀ.
        tied: L = R.
        init: how L, R and C are initialized.
        seed: of the initial weights.
        lens: map from tokens to the coordinates of the forms; by default the paper's, which changes nothing.
        block_size: atoms whose Gram matrix is held at once; by default all, up to 16,384, and none if `error_path` says
            that the product space is smaller.
        provenance: where the activations come from.
        device: of the parameters.
        dtype: of the parameters.
        tensors: weights to use instead of initial ones, as `tensors()` returns them.

    Example:
        >>> from quadric import BilinearAutoencoder
        >>> autoencoder = BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> autoencoder.encode(torch.ones(2, 8)).shape
        torch.Size([2, 16])
    """

    kind = "bilinear"
    mixing: Mixing

    def __init__(
        self,
        *,
        d_model: int,
        n_latents: int,
        n_hidden: int | None = None,
        prior: Prior = "composite",
        mixing_density: float | None = None,
        symmetric: bool = True,
        tied: bool = False,
        init: Initialization = "orthogonal",
        seed: int = 0,
        lens: Lens | None = None,
        block_size: int | None = None,
        provenance: Provenance | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        tensors: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        if block_size is not None:
            check_positive("block_size", block_size)
        if prior == "composite" and mixing_density is None:
            mixing_density = PAPER_MIXING_DENSITY
        architecture = BilinearArchitecture(
            d_model=d_model,
            n_latents=n_latents,
            n_hidden=default_hidden(n_latents, prior) if n_hidden is None else n_hidden,
            prior=prior,
            mixing_density=mixing_density,
            symmetric=symmetric,
            tied=tied,
            init=init,
            seed=seed,
            lens="paper" if lens is None else lens.kind,
        )
        if lens is not None and lens.d_model != d_model:
            raise ValueError(f"the lens reads tokens of width {lens.d_model}, not d_model={d_model}; estimate it anew")
        self._architecture, self.block_size = architecture, block_size
        self.provenance = provenance or Provenance()
        self.d_model, self.n_latents, self.n_hidden = d_model, n_latents, architecture.n_hidden
        self.prior, self.symmetric, self.tied = prior, symmetric, tied
        parts = _initial_parts(architecture) if tensors is None else _stored_parts(architecture, tensors)
        self.left = nn.Parameter(parts.left)
        self.right = self.left if tied else nn.Parameter(parts.right)
        self.mixing = parts.mixing
        self.offset = nn.Parameter(parts.offset)
        self.to(device=device, dtype=dtype)
        self.lens = (PaperLens(d_model) if lens is None else lens).to(device)  # in its own precision

    @classmethod
    def from_tensors(cls, architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> "BilinearAutoencoder":
        check_shapes(tensors, tensor_shapes(architecture))
        sizes = {name: value for name, value in asdict(architecture).items() if name != "lens"}
        lens = AffineLens.from_tensors(tensors) if architecture.lens == "affine" else None
        return cls(**sizes, lens=lens, tensors=tensors, dtype=tensors["left"].dtype)

    @property
    def architecture(self) -> BilinearArchitecture:
        density = self.mixing_density if self.prior == "composite" else None
        return replace(self._architecture, mixing_density=density)

    @property
    def mixing_density(self) -> float:
        """Share of C that may differ from zero."""
        return self.mixing.n_entries / (self.n_latents * self.n_hidden)

    def encode(self, tokens: Tensor) -> Float[Tensor, "n k"]:
        """Latents z = x̃ᵀW̃x̃ of tokens as the lens shows them; `loss` and `density` scale x̃ to unit norm first.

        The paper's lens shows a token at its own scale, so z grows with ‖x‖². An affine lens shows the unit token.

        Args:
            tokens: activations (n, d).

        Returns:
            Signed latents (n, k).
        """
        check_tokens(tokens, self.d_model)
        return self._latents(self.lens(tokens.to(working_dtype(tokens.dtype, self.left.dtype))))

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        return self._latents(self._inputs(tokens))

    def _inputs(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        """x̃ of unit tokens, scaled to unit norm."""
        return tokens if isinstance(self.lens, PaperLens) else unit_tokens(self.lens(tokens))

    def at_own_scale(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """From latents of x̃ at unit norm (`encode_prepared`) to those of x̃ itself (`encode`), for unit tokens."""
        if isinstance(self.lens, PaperLens):
            return latents
        shown: Tensor = self.lens(tokens)
        return latents * shown.square().sum(-1, keepdim=True)

    def _latents(self, inputs: Float[Tensor, "n w"]) -> Float[Tensor, "n k"]:
        return self.mixing.latents(inputs, *self._used_factors(inputs.dtype))

    def loss(
        self,
        tokens: Tensor,
        alpha: float = 0.3,
        mask: Tensor | None = None,
        overlap_penalty: float = 0.0,
        top_latents: int | None = None,
        mean_penalty: float = 0.0,
    ) -> LossTerms:
        """Mean error of x̃x̃ᵀ + alpha · mean density + overlap_penalty · Σ_{i≠j} cos²(W_i, W_j)/k
        + mean_penalty · ‖mean of X̃̂ − mean of x̃x̃ᵀ‖²; differentiable.

        Args:
            tokens: activations (n, d).
            alpha: weight of the density penalty.
            mask: (n,) of torch.bool, True where a token counts; all by default.
            overlap_penalty: weight of the resemblance between latents; keeps several latents from learning one form.
            top_latents: how many latents reconstruct each token, the strongest by |z_i|·‖W_i‖; all by default, and
                if there are fewer.
            mean_penalty: weight of the error of all latents together on the mean of the batch; keeps latents that are
                not among a token's strongest from adding up to a constant.

        Returns:
            `LossTerms(total, error, density)`; the error is that of the lens's own coordinates.
        """
        check_weight("alpha", alpha, "the paper uses 0.3")
        check_weight("overlap_penalty", overlap_penalty, "0 leaves it out")
        check_weight("mean_penalty", mean_penalty, "0 leaves it out")
        if top_latents is not None:
            check_positive("top_latents", top_latents)
        return self.loss_sums(tokens, mask, overlap_penalty, top_latents, mean_penalty).terms(alpha)

    def loss_sums(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        overlap_penalty: float = 0.0,
        top_latents: int | None = None,
        mean_penalty: float = 0.0,
        share: Share | None = None,
    ) -> LossSums:
        """The sums that `loss` divides by the number of tokens; sums of parts of a batch can be added.

        Args:
            tokens: activations (n, d).
            mask: (n,) of torch.bool, True where a token counts; all by default.
            overlap_penalty: as in `loss`.
            top_latents: as in `loss`.
            mean_penalty: as in `loss`. Parts of a batch can then be added only if they are those of processes with a
                share, which know the mean of the whole batch.
            share: this process's part of the work on the kernel, if all processes of a torch.distributed job call this
                together, each with its own tokens. Gradients must then be added up over processes. By default the
                kernel is computed by this process alone.

        Returns:
            `LossSums` of these tokens.
        """
        inputs = self._inputs(prepare_tokens(tokens, self.d_model, self.left.dtype, mask))
        if top_latents is not None and top_latents >= self.n_latents:
            top_latents = None
        if self.error_path == "blocked":
            latents, sums = self._blocked_sums(inputs, overlap_penalty, top_latents)
        elif self.error_path == "lifted":
            latents, sums = self._lifted_sums(inputs, overlap_penalty, top_latents)
        else:
            latents, sums = self._kernel_sums(inputs, overlap_penalty, top_latents, share)
        if not mean_penalty:
            return sums
        mean_error = self._mean_error(inputs, latents, share)
        return sums._replace(objective=sums.objective + len(inputs) * mean_penalty * mean_error)

    def _mean_error(
        self, inputs: Float[Tensor, "n w"], latents: Float[Tensor, "n k"], share: Share | None
    ) -> Float[Tensor, ""]:
        """‖mean of X̃̂ − mean of x̃x̃ᵀ‖² with the means over the whole batch, of which other processes have parts."""
        (n, width), n_latents = inputs.shape, latents.shape[1]
        sums = torch.cat([latents.sum(0), (inputs.mT @ inputs).flatten(), inputs.new_tensor([n])])
        if share is not None:
            sums = sum_of_parts(sums)
        means = sums[:-1] / sums[-1]
        left, right = self._used_factors(inputs.dtype)
        weights, used = self.mixing.unmix(means[None, :n_latents])[0], self.mixing.used_atoms
        if used is not None:
            weights = weights.index_select(0, used)
        # X̃̂ is linear in z, so its mean is that of the mean latents.
        rebuilt = (left * weights[:, None]).mT @ right
        rebuilt = (rebuilt + rebuilt.mT) / 2 if self.symmetric else rebuilt
        return (rebuilt - means[n_latents:].view(width, width)).square().sum()

    def _kernel_sums(
        self, inputs: Float[Tensor, "n w"], overlap_penalty: float, top_latents: int | None, share: Share | None
    ) -> "_LatentsAndSums":
        left, right = self._used_factors(inputs.dtype)
        # K before Z: the backward pass runs in reverse and has freed the latents when G's gradient needs memory.
        kernel = self._kernel(left, right, share)
        latents = self.mixing.latents(inputs, left, right)
        kept = None
        if top_latents is not None:
            norms = kernel.detach().diagonal().clamp(min=0).sqrt()
            kept = kept_latents(strongest(latents, norms, top_latents), self.n_latents)
        sums = latent_sums(latents, kernel, self.offset.to(inputs.dtype), kept)
        error = objective = sums.error.sum()
        if overlap_penalty:
            objective = error + len(inputs) * overlap_penalty * kernel_overlap(kernel)
        return _LatentsAndSums(latents, LossSums(objective, error, sums.l1, sums.l2_squared, len(inputs)))

    def _kernel(self, left: Float[Tensor, "u w"], right: Float[Tensor, "u w"], share: Share | None) -> Tensor:
        """K of the used atoms, computed by this process alone or together with others."""
        if share is None:
            return self.mixing.kernel(atom_gram(left, right, self.symmetric))
        return sum_of_parts(self.mixing.kernel_part(gram_rows(left, right, self.symmetric, share)))

    def _blocked_sums(
        self, inputs: Float[Tensor, "n w"], overlap_penalty: float, top_latents: int | None
    ) -> "_LatentsAndSums":
        if overlap_penalty or top_latents is not None:
            given = f"overlap_penalty={overlap_penalty}" if overlap_penalty else f"top_latents={top_latents}"
            raise ValueError(
                f"{given} needs the kernel, which is never formed for {self.n_hidden} atoms in blocks; "
                f"set it to {0 if overlap_penalty else None}{self._remedy_for_blocks()}"
            )
        latents = self._latents(inputs)
        error = kernel_error(self._quadratic_form(latents), latents).sum()
        return _LatentsAndSums(latents, LossSums(error, error, *density_norms(latents, self.offset), len(inputs)))

    def _remedy_for_blocks(self) -> str:
        """What else would help where the kernel is not formed: a C that is sparse from the start."""
        if not isinstance(self.mixing, Masked) or self._error_path(is_sparse=True) != "lifted":
            return ""
        return f", or start with an initial_density below {SPARSE_BELOW}"

    def _lifted_sums(
        self, inputs: Float[Tensor, "n w"], overlap_penalty: float, top_latents: int | None
    ) -> "_LatentsAndSums":
        left, right = self._used_factors(inputs.dtype)
        rows = self.mixing.sparse_rows(inputs)
        assert rows is not None
        latents = chosen = self.mixing.latents(inputs, left, right)
        if top_latents is None:
            quadratic = lifted_reconstruction(latents, left, right, rows, self.symmetric).square().sum(-1)
        else:
            norms = form_norms(left, right, rows, self.symmetric)
            indices = strongest(latents, norms, top_latents)
            chosen = latents.mT.gather(0, indices.mT).mT
            quadratic = few_latents_form(chosen, indices, left, right, rows, self.symmetric)
        error = objective = kernel_error(quadratic, chosen).sum()
        if overlap_penalty:
            overlap = lifted_overlap(left, right, rows, self.symmetric)
            objective = error + len(inputs) * overlap_penalty * overlap
        density_sums = latent_norms(latents, self.offset.to(inputs.dtype))
        return _LatentsAndSums(latents, LossSums(objective, error, *density_sums, len(inputs)))

    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        if self.error_path == "lifted":
            return self._lifted_errors(tokens, latents)
        own = kernel_error(self._quadratic_form(latents), latents)
        return TokenErrors(product_space=self._raw_error(tokens, latents, own), objective=own)

    def _raw_error(self, tokens: Tensor, latents: Tensor, own: Tensor) -> Tensor:
        """‖Û − uuᵀ‖² = zᵀK'z − 2z·y + 1 with the forms W' = TW̃Tᵀ on u, their kernel K' and y_i = uᵀW'_i u."""
        if isinstance(self.lens, PaperLens):
            return own
        left, right = self._used_factors(tokens.dtype, raw=True)
        latents = self.at_own_scale(tokens, latents)
        cross = (latents * self.mixing.latents(tokens, left, right)).sum(-1)
        return self._quadratic_form(latents, raw=True) - 2 * cross + 1

    def _lifted_errors(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        """Both errors from one reconstruction: that of uuᵀ is Û = TX̃̂Tᵀ, and z·y = uᵀÛu."""
        left, right = self._used_factors(latents.dtype)
        rows = self.mixing.sparse_rows(latents)
        assert rows is not None
        found = lifted_reconstruction(latents, left, right, rows, self.symmetric)
        own = kernel_error(found.square().sum(-1), latents)
        if isinstance(self.lens, PaperLens):
            return TokenErrors(product_space=own, objective=own)
        width = left.shape[1]
        scale = self.at_own_scale(tokens, tokens.new_ones(len(tokens), 1))
        half = self.lens.to_raw(unpacked(found * scale, width, self.symmetric).flatten(0, 1))
        raw = self.lens.to_raw(half.view(len(tokens), width, self.d_model).mT.flatten(0, 1))
        raw = raw.view(len(tokens), self.d_model, self.d_model)
        cross = (raw @ tokens[..., None])[..., 0].mul(tokens).sum(-1)
        return TokenErrors(product_space=raw.square().sum((1, 2)) - 2 * cross + 1, objective=own)

    def _quadratic_form(self, latents: Tensor, *, raw: bool = False) -> Tensor:
        """zᵀKz per token, of the forms on x̃ or on the raw unit token."""
        left, right = self._used_factors(latents.dtype, raw=raw)
        if self.error_path == "kernel":
            return quadratic_form(latents, self.mixing.kernel(atom_gram(left, right, self.symmetric)))
        weights, used = self.mixing.unmix(latents), self.mixing.used_atoms
        if used is not None:
            weights = weights.index_select(1, used)
        return blocked_quadratic_form(weights, left, right, self.symmetric, self.block_size or DEFAULT_BLOCK)

    @property
    def error_path(self) -> ErrorPath:
        """How the error is computed; in blocks if a block size was given."""
        if self.block_size is not None:
            return "blocked"
        return self._error_path(is_sparse=isinstance(self.mixing, Identity | Sparse))

    def _error_path(self, *, is_sparse: bool) -> ErrorPath:
        return error_path(
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            width=self.left.shape[1],
            is_sparse=is_sparse,
            symmetric=self.symmetric,
        )

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
        left, right = self._factors(latents.dtype)
        weights = self.mixing.unmix(latents)
        return self.lens.vector_from(((weights * right[:, -1]) @ left + (weights * left[:, -1]) @ right) / 2)

    @torch.no_grad()
    def rebuild_by_rank_one(self, tokens: Tensor) -> Float[Tensor, "n d"]:
        """Like `rebuild`, by the leading eigenvector of the reconstruction, with its sign taken from the token."""
        unit = self.prepare(tokens)
        norms: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=unit.dtype)
        return self.rank_one_vectors_of(unit, self.encode_prepared(unit)) * norms

    def rank_one_vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """√λ₁v₁ of the reconstruction of uuᵀ, with the sign for which x̂·x ≥ 0: the paper's decoding, for any lens."""
        left, right = self._factors(tokens.dtype, raw=True)
        latents = self.at_own_scale(tokens, latents)
        parts = []
        for start in range(0, len(tokens), TOKENS_AT_ONCE):
            some = tokens[start : start + TOKENS_AT_ONCE]
            weights = self.mixing.unmix(latents[start : start + TOKENS_AT_ONCE])
            parts.append(rank_one_vectors(leading_eigenpairs(left, right, weights, some), some))
        return torch.cat(parts)

    def density_offset(self) -> Float[Tensor, " k"]:
        return self.offset

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
        self.load_state_dict({**state, "right": state["left"]} if self.tied else state)

    @torch.no_grad()
    def kernel(self) -> Float[Tensor, "k k"]:
        """K = C G Cᵀ, the inner products between all latents' forms in the lens's coordinates."""
        left, right = self._used_factors(torch.promote_types(self.left.dtype, torch.float32))
        return self.mixing.kernel(atom_gram(left, right, self.symmetric))

    @torch.no_grad()
    def form(self, latent: int) -> Float[Tensor, "w w"]:
        """W_i, symmetric: the part of the form that data can see, whether or not the kernel is symmetric.

        With an affine lens, W̃ = [[Q, b/2], [bᵀ/2, a]] in the coordinates [v; c].
        """
        if not 0 <= latent < self.n_latents:
            raise IndexError(f"latent {latent} is outside 0 … {self.n_latents - 1}")
        left, right = self._factors(torch.promote_types(self.left.dtype, torch.float32))
        atoms, weights = self.mixing.row(latent)
        form = left[atoms].mT @ (weights.to(left)[:, None] * right[atoms])
        return (form + form.mT) / 2

    def latent(
        self, index: int, *, centre: Tensor | None = None, tolerance: float = 0.0
    ) -> "quadric.interventions.Latent":
        """One latent, to project, slide, ablate or scale activations along it (`quadric.interventions`).

        Args:
            index: of the latent.
            centre: mean of the unit tokens that a raw dictionary reads; an affine lens has its own, which is used.
            tolerance: share of Σ|λ| that its axes may leave out.

        Returns:
            A `Latent`, with methods (n, d) -> (n, d).

        Example:
            >>> autoencoder = BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
            >>> autoencoder.latent(3).project(torch.ones(2, 8), to=0.5).shape
            torch.Size([2, 8])
        """
        # Imported here: interventions are built on this room, and this is the one way back.
        from quadric.interventions import Latent

        return Latent(self, index, centre, tolerance)

    @torch.no_grad()
    def reconstruct(self, tokens: Tensor) -> Float[Tensor, "n d d"]:
        """X̂ = Σ_i z_i W_i, materialized: n·d² numbers, so for small batches only.

        With an affine lens it is mapped back to the reconstruction of uuᵀ.
        """
        weights = self.mixing.unmix(self.encode(tokens))
        left, right = self._factors(weights.dtype, raw=True)
        lifted = torch.einsum("nh,hd,he->nde", weights, left, right)
        return (lifted + lifted.mT) / 2 if self.symmetric else lifted

    def tensors(self) -> dict[str, Tensor]:
        saved: dict[str, Tensor] = {"left": self.left, "offset": self.offset}
        if not self.tied:
            saved["right"] = self.right
        return saved | self.mixing.tensors() | self.lens.tensors()

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, n_latents={self.n_latents}, n_hidden={self.n_hidden}, prior={self.prior!r}, "
            f"mixing_density={self.mixing_density:.4g}, symmetric={self.symmetric}, tied={self.tied}, "
            f"lens={self.lens.kind!r}"
        )

    def raw_factors(self) -> tuple[Float[Tensor, "h d"], Float[Tensor, "h d"]]:
        """L' = LTᵀ and R' = RTᵀ: the factors of the same reconstruction as forms on the raw unit token."""
        return self._factors(torch.promote_types(self.left.dtype, torch.float32), raw=True)

    def _used_factors(self, dtype: torch.dtype, *, raw: bool = False) -> tuple[Tensor, Tensor]:
        """L and R, without the atoms that no latent uses."""
        left, right = self._factors(dtype, raw=raw)
        used = self.mixing.used_atoms
        if used is None:
            return left, right
        left_used = left.index_select(0, used)
        return left_used, left_used if right is left else right.index_select(0, used)

    def _factors(self, dtype: torch.dtype, *, raw: bool = False) -> tuple[Tensor, Tensor]:
        """L and R; one and the same tensor if they are tied, which the kernels make use of."""
        left = self.left.to(dtype)
        left = self.lens.to_raw(left) if raw else left
        if self.tied:
            return left, left
        right = self.right.to(dtype)
        return left, self.lens.to_raw(right) if raw else right


def reference_loss(
    autoencoder: BilinearAutoencoder, tokens: Float[Tensor, "n d"], alpha: float = 0.3, top_latents: int | None = None
) -> LossTerms:
    """The loss in the order of the paper and in plain autograd: what `loss` computes, without its savings.

    Args:
        autoencoder: any prior, in any storage.
        tokens: at least two activations (n, d).
        alpha: weight of the density penalty.
        top_latents: how many latents reconstruct each token; all by default, as in the paper.

    Returns:
        `LossTerms(total, error, density)`, equal to `autoencoder.loss(tokens, alpha)`.

    Example:
        >>> from quadric.model import BilinearAutoencoder, reference_loss
        >>> autoencoder = BilinearAutoencoder(d_model=8, n_latents=16, prior="quadratic")
        >>> x = torch.randn(50, 8)
        >>> torch.testing.assert_close(reference_loss(autoencoder, x), autoencoder.loss(x))
    """
    left, right, offset = autoencoder.left, autoencoder.right, autoencoder.offset
    mixing = autoencoder.mixing.matrix().to(left)  # C, (k, h)
    x = autoencoder.lens(tokens)
    x = x / x.norm(dim=-1, keepdim=True)
    z = ((x @ left.mT) * (x @ right.mT)) @ mixing.mT
    gram = (left @ left.mT) * (right @ right.mT)
    if autoencoder.symmetric:
        gram = (gram + (left @ right.mT) * (right @ left.mT)) / 2
    kernel = mixing @ gram @ mixing.mT
    kept = z
    if top_latents is not None:
        share = z.abs() * kernel.diagonal().sqrt()
        kept = z * (share >= share.topk(top_latents).values[:, -1:])
    error = ((kept @ kernel) * kept).sum(-1) - 2 * kept.square().sum(-1) + 1
    norm_ratio = (z - offset).abs().sum(0) / (z - offset).square().sum(0).sqrt()
    density = (norm_ratio - 1) / (len(x) ** 0.5 - 1)
    return LossTerms(error.mean() + alpha * density.mean(), error.mean(), density.mean())


class _LatentsAndSums(NamedTuple):
    latents: Tensor
    sums: LossSums


class _Parts(NamedTuple):
    left: Tensor
    right: Tensor
    mixing: Mixing
    offset: Tensor


def _initial_parts(architecture: BilinearArchitecture) -> _Parts:
    d, h, k = architecture.width, architecture.n_hidden, architecture.n_latents
    check_seed(architecture.seed)
    generator = torch.Generator().manual_seed(architecture.seed)
    left = _initial(architecture.init, h, d, generator)
    right = left if architecture.tied else _initial(architecture.init, h, d, generator)
    return _Parts(left, right, _initial_mixing(architecture, generator), torch.zeros(k))


def _initial(init: Initialization, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    weight = torch.empty(rows, columns)
    if init == "xavier":
        return nn.init.xavier_uniform_(weight, generator=generator)
    return nn.init.orthogonal_(weight, generator=generator)


def _initial_mixing(architecture: BilinearArchitecture, generator: torch.Generator) -> Mixing:
    if architecture.prior == "atomic":
        return Identity(architecture.n_latents)
    k, h = architecture.n_latents, architecture.n_hidden
    density = architecture.mixing_density
    if density is not None and density < 1:
        return scattered_mixing((k, h), density, _expected_row_norm(architecture.init, k, h), generator)
    _check_dense_mixing(architecture)
    weight = _initial(architecture.init, k, h, generator)
    return Dense(weight) if density is None else Masked(weight)


def _expected_row_norm(init: Initialization, rows: int, columns: int) -> float:
    """Root mean square norm of a row of `_initial`."""
    return sqrt(columns / max(rows, columns) if init == "orthogonal" else 2 * columns / (rows + columns))


def _check_dense_mixing(architecture: BilinearArchitecture) -> None:
    k, h = architecture.n_latents, architecture.n_hidden
    if k * h <= LARGEST_DENSE_MIXING:
        return
    remedy = "choose the composite prior" if architecture.mixing_density is None else "let C start with fewer entries"
    raise ValueError(
        f"all entries of C at n_latents={k} and n_hidden={h} take {4 * k * h / 2**30:.0f} GiB, and several times that "
        f"in training; {remedy} (initial_density={min(1.0, 64 / h):.1g} is about 64 atoms per latent)"
    )


def _stored_parts(architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> _Parts:
    right = tensors["left"] if architecture.tied else tensors["right"]
    return _Parts(tensors["left"], right, _stored_mixing(architecture, tensors), tensors["offset"])


def _stored_mixing(architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> Mixing:
    if architecture.prior == "atomic":
        return Identity(architecture.n_latents)
    if architecture.prior == "quadratic":
        return Dense(tensors["mixing"])
    entries = Entries(tensors["mixing_rows"], tensors["mixing_columns"], tensors["mixing_values"])
    return mixing_from_entries(entries, (architecture.n_latents, architecture.n_hidden))


def tensor_shapes(architecture: BilinearArchitecture) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that an autoencoder of this architecture saves."""
    d, h, k = architecture.width, architecture.n_hidden, architecture.n_latents
    shapes: dict[str, tuple[int, ...]] = {"left": (h, d), "offset": (k,)}
    if architecture.lens == "affine":
        d_model = architecture.d_model
        shapes |= {"lens_centre": (d_model,), "lens_covariance": (d_model, d_model)}
        shapes |= {"lens_constant": (), "lens_n_tokens": ()}
    if not architecture.tied:
        shapes["right"] = (h, d)
    if architecture.prior == "quadratic":
        shapes["mixing"] = (k, h)
    if architecture.mixing_density is not None:
        n_entries = max(1, round(architecture.mixing_density * k * h))
        shapes |= dict.fromkeys(("mixing_rows", "mixing_columns", "mixing_values"), (n_entries,))
    return shapes
