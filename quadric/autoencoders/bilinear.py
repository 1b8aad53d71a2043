"""The bilinear autoencoder: L, R and a mixing. Its latents are quadratic forms of the token.

z_i = xᵀW_i x = Σ_j C_ij (l_j·x)(r_j·x),    W_i = Σ_j C_ij ½(l_j r_jᵀ + r_j l_jᵀ),    X̂ = Σ_i z_i W_i
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.autoencoders.autoencoder import Autoencoder, TokenErrors
from quadric.autoencoders.io import check_shapes
from quadric.autoencoders.kernels.atoms import atom_values
from quadric.autoencoders.kernels.gram import atom_gram
from quadric.autoencoders.kernels.sums import latent_sums
from quadric.autoencoders.mixing import Atomic, Composite, Prior, Quadratic
from quadric.autoencoders.objective import (
    LossSums,
    blocked_quadratic_form,
    kernel_error,
    quadratic_form,
)
from quadric.autoencoders.provenance import Provenance
from quadric.autoencoders.rank_one import leading_eigenpairs, rank_one_vectors
from quadric.autoencoders.sparse_mixing import SparseMixing

Initialization = Literal["orthogonal", "xavier"]

PAPER_MIXING_DENSITY = 0.001
LARGEST_DENSE_GRAM = 16_384
"""Atoms up to which the h×h Gram matrix is held at once (1 GiB in float32); beyond, it is walked in blocks."""
DEFAULT_BLOCK = 4_096
TOKENS_AT_ONCE = 512  # whose Krylov bases are held at once


@dataclass(frozen=True, kw_only=True)
class BilinearArchitecture:
    """Sizes and constraints of a bilinear autoencoder."""

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

    def __post_init__(self) -> None:
        for name in ("d_model", "n_latents", "n_hidden"):
            check_positive(name, getattr(self, name))
        _check_choice("prior", self.prior, get_args(Prior))
        _check_choice("init", self.init, get_args(Initialization))
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


def default_hidden(n_latents: int, prior: Prior) -> int:
    """The paper's two atoms a latent, or one where the prior is atomic."""
    return n_latents if prior == "atomic" else 2 * n_latents


class BilinearAutoencoder(Autoencoder):
    """A dictionary of quadratic forms, trained to rebuild xxᵀ.

    `mixing_density` is the share of C that is kept now (composite only; default 0.1 %); `set_mixing_density`
    lowers it. `n_hidden` defaults to the paper's two atoms a latent, or one where the prior is atomic.
    `symmetric=False` measures the error with the paper's printed kernel, whose atoms are l rᵀ; `tied=True` makes
    L = R. `block_size` bounds the atoms whose Gram matrix is held at once; by default all, up to 16,384.
    """

    kind = "bilinear"
    left: nn.Parameter
    right: nn.Parameter
    offset: nn.Parameter
    mixing: Atomic | Composite | Quadratic

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
        block_size: int | None = None,
        provenance: Provenance | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if block_size is not None:
            check_positive("block_size", block_size)
        if prior == "composite" and mixing_density is None:
            mixing_density = PAPER_MIXING_DENSITY
        n_hidden = default_hidden(n_latents, prior) if n_hidden is None else n_hidden
        architecture = BilinearArchitecture(
            d_model=d_model,
            n_latents=n_latents,
            n_hidden=n_hidden,
            prior=prior,
            mixing_density=mixing_density,
            symmetric=symmetric,
            tied=tied,
            init=init,
            seed=seed,
        )
        generator = torch.Generator().manual_seed(seed)
        left = _initial(init, n_hidden, d_model, generator)
        right = left if tied else _initial(init, n_hidden, d_model, generator)
        self._assemble(architecture, left, right, _initial_mixing(architecture, generator), torch.zeros(n_latents))
        self.block_size = block_size
        self.provenance = provenance or Provenance()
        self.to(device=device, dtype=dtype)

    def _assemble(
        self,
        architecture: BilinearArchitecture,
        left: Tensor,
        right: Tensor,
        mixing: Atomic | Composite | Quadratic,
        offset: Tensor,
    ) -> None:
        self._architecture = architecture
        self.d_model, self.n_latents = architecture.d_model, architecture.n_latents
        self.n_hidden, self.prior = architecture.n_hidden, architecture.prior
        self.symmetric, self.tied = architecture.symmetric, architecture.tied
        self.left = nn.Parameter(left)
        self.right = self.left if architecture.tied else nn.Parameter(right)
        self.mixing = mixing
        self.offset = nn.Parameter(offset)

    @property
    def architecture(self) -> BilinearArchitecture:
        if not isinstance(self.mixing, Composite):
            return self._architecture
        return replace(self._architecture, mixing_density=self.mixing_density)

    @property
    def mixing_density(self) -> float:
        """Share of C that may differ from zero."""
        if isinstance(self.mixing, Composite):
            return self.mixing.n_entries / (self.n_latents * self.n_hidden)
        return 1 / self.n_latents if self.prior == "atomic" else 1.0

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        return _latents(tokens, *self._live(tokens.dtype))

    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        error = kernel_error(self._quadratic_form(latents), latents)
        return TokenErrors(product_space=error, objective=error)

    def loss_sums(self, tokens: Tensor, mask: Tensor | None = None) -> LossSums:
        if self._atoms_at_once() is not None:
            return super().loss_sums(tokens, mask)
        tokens = self.prepare(tokens, mask)
        left, right, mixing = self._live(tokens.dtype)
        # K before Z: the backward pass goes the other way, and is done with the tokens when G's gradient needs room.
        kernel = mixing.kernel(atom_gram(left, right, self.symmetric))
        sums = latent_sums(_latents(tokens, left, right, mixing), kernel, self.offset.to(tokens.dtype))
        error = sums.error.sum()
        return LossSums(error, error, sums.l1, sums.l2_squared, len(tokens))

    def _quadratic_form(self, latents: Tensor) -> Tensor:
        block_size = self._atoms_at_once()
        if block_size is None:
            return quadratic_form(latents, self._kernel(latents.dtype))
        left, right, mixing = self._live(latents.dtype)
        return blocked_quadratic_form(mixing.unmix(latents), left, right, self.symmetric, block_size)

    def _atoms_at_once(self) -> int | None:
        """Atoms whose Gram matrix may be held at once; None for all."""
        if self.block_size is None and self.n_hidden > LARGEST_DENSE_GRAM:
            return DEFAULT_BLOCK
        return self.block_size

    def _kernel(self, dtype: torch.dtype) -> Tensor:
        left, right, mixing = self._live(dtype)
        return mixing.kernel(atom_gram(left, right, self.symmetric))

    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """√λ₁ v₁ of X̂, with the sign for which x̂·x ≥ 0."""
        left, right = self._factors(tokens.dtype)
        parts = []
        for start in range(0, len(tokens), TOKENS_AT_ONCE):
            some = tokens[start : start + TOKENS_AT_ONCE]
            weights = self.mixing.unmix(latents[start : start + TOKENS_AT_ONCE])
            parts.append(rank_one_vectors(leading_eigenpairs(left, right, weights, some), some))
        return torch.cat(parts)

    def density_offset(self) -> Float[Tensor, " k"]:
        return self.offset

    def set_mixing_density(self, density: float) -> Int[Tensor, " kept"] | None:
        """Keep the globally largest |C|; storage becomes sparse when that pays, which renews the parameter of C.

        Returns what `Composite.keep_largest` returns: which entries of an already sparse C stayed.
        """
        check_density(density)
        if not isinstance(self.mixing, Composite):
            raise ValueError(f"the {self.prior} prior has no mixing density to set; choose prior='composite'")
        return self.mixing.keep_largest(density)

    def restore(self, state: dict[str, Tensor]) -> None:
        """Like load_state_dict, but also where the state has another storage of C than this autoencoder."""
        if isinstance(self.mixing, Composite):
            prefix = "mixing."
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            self.mixing = self.mixing.state_from(own).to(self.left.device)
        self.load_state_dict({**state, "right": state["left"]} if self.tied else state)

    @torch.no_grad()
    def kernel(self) -> Float[Tensor, "k k"]:
        """K = C G Cᵀ, the inner products between all latents' forms."""
        return self._kernel(torch.promote_types(self.left.dtype, torch.float32))

    @torch.no_grad()
    def form(self, latent: int) -> Float[Tensor, "d d"]:
        """W_i, symmetric: the part of the latent that data can see, whether or not the kernel is symmetric."""
        if not 0 <= latent < self.n_latents:
            raise IndexError(f"latent {latent} is outside 0 … {self.n_latents - 1}")
        left, right = self._factors(torch.promote_types(self.left.dtype, torch.float32))
        atoms, weights = self.mixing.row(latent)
        form = left[atoms].mT @ (weights.to(left)[:, None] * right[atoms])
        return (form + form.mT) / 2

    @torch.no_grad()
    def reconstruct(self, tokens: Tensor) -> Float[Tensor, "n d d"]:
        """X̂ = Σ_i z_i W_i, materialized: n·d² numbers, so for small batches only."""
        weights = self.mixing.unmix(self.encode(tokens))
        left, right = self._factors(weights.dtype)
        lifted = torch.einsum("nh,hd,he->nde", weights, left, right)
        return (lifted + lifted.mT) / 2 if self.symmetric else lifted

    def tensors(self) -> dict[str, Tensor]:
        saved: dict[str, Tensor] = {"left": self.left, "offset": self.offset}
        if not self.tied:
            saved["right"] = self.right
        if isinstance(self.mixing, Quadratic):
            saved["mixing"] = self.mixing.weight
        if isinstance(self.mixing, Composite):
            saved |= zip(("mixing_rows", "mixing_columns", "mixing_values"), self.mixing.entries(), strict=True)
        return saved

    @classmethod
    def from_tensors(cls, architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> "BilinearAutoencoder":
        check_shapes(tensors, _expected_shapes(architecture, tensors))
        self = cls.__new__(cls)
        nn.Module.__init__(self)
        right = tensors["left"] if architecture.tied else tensors["right"]
        self._assemble(architecture, tensors["left"], right, _stored_mixing(architecture, tensors), tensors["offset"])
        self.block_size = None
        self.provenance = Provenance()
        return self

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, n_latents={self.n_latents}, n_hidden={self.n_hidden}, prior={self.prior!r}, "
            f"mixing_density={self.mixing_density:.4g}, symmetric={self.symmetric}, tied={self.tied}"
        )

    def _live(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Atomic | Composite | Quadratic | SparseMixing]:
        """The factors of the atoms that some latent uses, and the mixing of those."""
        left, right = self._factors(dtype)
        atoms, mixing = self.mixing.live()
        if atoms is not None:
            left, right = left.index_select(0, atoms), right.index_select(0, atoms)
        return left, right, mixing

    def _factors(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return self.left.to(dtype), self.right.to(dtype)


def _latents(
    tokens: Tensor, left: Tensor, right: Tensor, mixing: Atomic | Composite | Quadratic | SparseMixing
) -> Tensor:
    if isinstance(mixing, SparseMixing):
        return mixing.latents(tokens, left, right)
    return mixing.mix(atom_values(tokens, left, right))


def _initial(init: Initialization, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    weight = torch.empty(rows, columns)
    if init == "xavier":
        return nn.init.xavier_uniform_(weight, generator=generator)
    return nn.init.orthogonal_(weight, generator=generator)


def _initial_mixing(architecture: BilinearArchitecture, generator: torch.Generator) -> Atomic | Composite | Quadratic:
    if architecture.prior == "atomic":
        return Atomic(architecture.n_latents)
    weight = _initial(architecture.init, architecture.n_latents, architecture.n_hidden, generator)
    if architecture.mixing_density is None:
        return Quadratic(weight)
    return Composite(weight, architecture.mixing_density)


def _stored_mixing(architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> Atomic | Composite | Quadratic:
    if architecture.prior == "atomic":
        return Atomic(architecture.n_latents)
    if architecture.prior == "quadratic":
        return Quadratic(tensors["mixing"])
    shape = (architecture.n_latents, architecture.n_hidden)
    rows, columns = tensors["mixing_rows"], tensors["mixing_columns"]
    places = rows * shape[1] + columns
    inside = bool(((rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])).all())
    if not inside or not bool((places.diff() > 0).all()):
        raise ValueError(
            f"the entries of the mixing are not distinct, sorted places of a {shape} matrix; save it again"
        )
    return Composite.from_entries(rows, columns, tensors["mixing_values"], shape)


def _expected_shapes(architecture: BilinearArchitecture, tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    d, h, k = architecture.d_model, architecture.n_hidden, architecture.n_latents
    shapes: dict[str, tuple[int, ...]] = {"left": (h, d), "offset": (k,)}
    if not architecture.tied:
        shapes["right"] = (h, d)
    if architecture.prior == "quadratic":
        shapes["mixing"] = (k, h)
    if architecture.mixing_density is not None:
        n_entries = max(1, round(architecture.mixing_density * k * h))
        shapes |= dict.fromkeys(("mixing_rows", "mixing_columns", "mixing_values"), (n_entries,))
    return shapes


def check_positive(name: str, value: object) -> None:
    """Refuse a size that is not a whole number ≥ 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not a whole number ≥ 1")


def check_density(density: object) -> None:
    """Refuse a share outside (0, 1]."""
    if not isinstance(density, int | float) or isinstance(density, bool) or not 0 < density <= 1:
        raise ValueError(f"mixing density {density!r} is outside (0, 1]; the paper keeps 0.001 of the entries")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")
