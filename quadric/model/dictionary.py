"""The one interface of every dictionary: what other rooms and training know of it.

A kind from outside extends `Dictionary` and writes `encode` and `rebuild`; the other methods have defaults that follow
from these. Ours extend `Autoencoder`, which checks and scales tokens once and works on prepared ones.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric._io.results import facts_table
from quadric.model.devices import Rows, device_of, rows_on
from quadric.model.forms import Directions, Forms
from quadric.model.lens import Lens, PaperLens
from quadric.model.objective import (
    check_tokens,
    checked_mask,
    hoyer_density,
    prepare_tokens,
    product_space_error,
    working_dtype,
)
from quadric.model.processes import ALONE, Processes
from quadric.model.provenance import Provenance
from quadric.model.settings import Settings
from quadric.model.step import LossTerms, Step, values_of
from quadric.model.storage import load_pretrained, write_dictionary
from quadric.model.terms import Density, Term

if TYPE_CHECKING:
    from typing import Self

    from quadric.interventions import Latent
    from quadric.model.fast.products import CsrPattern


class TokenErrors(NamedTuple):
    """The error per token, as reported and as trained."""

    product_space: Float[Tensor, " n"]
    """‖X̂ − X‖²/‖X‖², comparable between all dictionaries."""
    objective: Float[Tensor, " n"]
    """What training minimizes, apart from density."""


class Group(NamedTuple):
    """Parameters that one optimizer updates: Muon where they are matrices or entries of one, else AdamW."""

    name: str
    """`vectors` are for AdamW; other names are free."""
    parameters: list[nn.Parameter]
    pattern: "CsrPattern | None" = None
    """Where the entries of a sparse matrix are, if the only parameter holds these."""


class Moved(NamedTuple):
    """A parameter that took another's place, so that its optimizer can keep the momentum."""

    before: nn.Parameter
    after: nn.Parameter
    positions: tuple[Tensor, ...]
    """Index into the old parameter that gives the entries of the new one."""


class Dictionary(nn.Module, ABC):
    """Latents over token vectors of width `d_model`, measured in the product space.

    Args:
        settings: of a registered kind.
        d_model: width of the token vectors.
        seed: of the initial weights.
        provenance: where the activations come from.

    Example:
        >>> isinstance(ae, quadric.Dictionary), ae.kind, ae.n_latents
        (True, 'composite', 24)
        >>> ae(x).shape, ae.rebuild(x).shape
        (torch.Size([2000, 24]), torch.Size([2000, 32]))
    """

    settings: Settings
    lens: Lens
    provenance: Provenance

    def __init__(
        self, settings: Settings, d_model: int, *, seed: int = 0, provenance: Provenance | None = None
    ) -> None:
        super().__init__()
        for name, value, smallest in (("d_model", d_model, 1), ("seed", seed, 0)):
            if not isinstance(value, Integral) or isinstance(value, bool) or not smallest <= value < 2**32:
                raise ValueError(f"{name}={value!r} is not a whole number from {smallest} to {2**32 - 1}; give one")
        self.settings, self.d_model, self.seed = settings, int(d_model), int(seed)
        self.lens = PaperLens(d_model)
        self.provenance = provenance or Provenance()

    @property
    def kind(self) -> str:
        """Name of the kind, as it is registered."""
        return self.settings.kind

    @property
    def n_latents(self) -> int:
        """k, the size of the dictionary."""
        return self.settings.n_latents

    # What a kind from outside writes.

    @abstractmethod
    def encode(self, tokens: Tensor) -> Float[Tensor, "n k"]:
        """Signed latents (n, k) of activations (n, d)."""

    @abstractmethod
    def rebuild(self, tokens: Tensor) -> Float[Tensor, "n d"]:
        """Reconstruction x̂ of activations (n, d), at their own scale; differentiable if the kind is trained by it."""

    # What follows from these two.

    def forward(self, tokens: Rows) -> Float[Tensor, "n k"]:
        """`encode`."""
        return self.encode(rows_on(tokens, device_of(self)))

    @property
    def token_length(self) -> float | None:
        """The length to which `prepare` scales tokens; None where they keep their own."""
        return 1.0

    @property
    def reads_unit_tokens(self) -> bool:
        """Whether it was trained on unit tokens, as every dictionary trained here."""
        return self.token_length == 1

    def prepare(self, tokens: Rows, mask: Tensor | None = None) -> Tensor:
        """What the encoder expects of activations at their own length: the kept ones, checked, in working precision.

        They are scaled to unit norm unless the dictionary was trained elsewhere on another scale.

        Args:
            tokens: activations (n, d) as the language model computes them.
            mask: (n,) of torch.bool, True where a token counts; all by default.

        Returns:
            Tokens for `encode`.
        """
        tokens = rows_on(tokens, device_of(self))
        return prepare_tokens(tokens, self.d_model, self._dtype, mask, length=self.token_length)

    def lengths_of(self, prepared: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        """‖x‖ of prepared tokens: exactly the length to which `prepare` scales them, if it does."""
        if self.token_length is not None:
            return prepared.new_full((len(prepared), 1), self.token_length)
        lengths: Tensor = torch.linalg.vector_norm(prepared, dim=-1, keepdim=True)
        return lengths

    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Latents of tokens that `prepare` returned."""
        return self.encode(tokens)

    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """Reconstruction of each prepared token as a vector.

        `tokens` give what latents do not determine: a sign, or a length.
        """
        return self.rebuild(tokens)

    @property
    def is_linear(self) -> bool:
        """Whether the latents are directions."""
        return isinstance(self.forms(), Directions)

    @property
    def rebuilds_from_latents(self) -> bool:
        """Whether `vectors_of` reads the latents it is given; False for a kind that wrote `rebuild` alone."""
        return type(self).vectors_of is not Dictionary.vectors_of

    @property
    def rebuilds_products(self) -> bool:
        """Whether it reconstructs xxᵀ as X̂ = Σ z_i W_i; others reconstruct a vector x̂, and X̂ is x̂x̂ᵀ."""
        return False

    def errors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> TokenErrors:
        """Error of each prepared token's reconstruction from its latents."""
        reconstruction = self.vectors_of(tokens, latents)
        return TokenErrors(
            product_space=product_space_error(tokens, reconstruction),
            objective=(tokens - reconstruction).square().sum(-1),
        )

    def error(self, tokens: Rows, mask: Tensor | None = None) -> Float[Tensor, " n"]:
        """Product-space error ‖X̂ − X‖²/‖X‖² per kept token; differentiable."""
        prepared = self.prepare(tokens, mask)
        return self.errors_of(prepared, self.encode_prepared(prepared)).product_space

    def density_offset(self) -> Float[Tensor, " k"] | None:
        """Subtracted from the latents before their density is measured, if not None."""
        return None

    def latent_scale(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        """How many times larger `encode` of a token is than the latent that training sees."""
        return tokens.new_ones(len(tokens), 1)

    def at_own_scale(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """From latents of prepared tokens (`encode_prepared`) to those of the same tokens by `encode`."""
        return latents

    def forms(self) -> Forms | Directions | None:
        """The latents as geometry sees them; None for a kind whose latents are neither forms nor directions."""
        return None

    def rebuild_by_rank_one(self, tokens: Rows) -> Float[Tensor, "n d"]:
        """`rebuild` by the paper's decoding, √λ₁v₁ of X̂ with the token's sign, where the kind has forms."""
        return self.rebuild(rows_on(tokens, device_of(self)))

    def density(self, tokens: Rows, mask: Tensor | None = None) -> Float[Tensor, " k"]:
        """Hoyer density per latent over the kept tokens."""
        return hoyer_density(self.encode_prepared(self.prepare(tokens, mask)), self.density_offset())

    def latent(self, index: int, *, centre: Tensor | None = None, tolerance: float = 0.0) -> "Latent":
        """One latent, to project, slide, ablate or scale activations along it (`quadric.interventions`).

        Args:
            index: of the latent.
            centre: mean of the unit tokens that a raw dictionary reads; an affine lens has its own, which is used.
            tolerance: share of Σ|λ| that its axes may leave out.

        Returns:
            A `Latent`, with methods (n, d) -> (n, d).

        Example:
            >>> autoencoder = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
            >>> autoencoder.latent(3).project(torch.ones(2, 8), to=0.5).shape
            torch.Size([2, 8])
        """
        # Imported here: interventions are built on this room, and this is the one way back.
        from quadric.interventions import Latent

        return Latent(self, index, centre, tolerance)

    # Training.

    def step(
        self,
        batch: Tensor,
        loss: Iterable[Term] = (),
        *,
        index: int = 0,
        steps: int = 1,
        processes: Processes = ALONE,
    ) -> Step:
        """What the terms of a loss can ask for about one batch of activations (n, d)."""
        return self._step_class(self, batch, loss=loss, index=index, steps=steps, processes=processes)

    @property
    def _step_class(self) -> type[Step]:
        return Step

    def parameter_groups(self) -> list[Group]:
        """Which parameters an optimizer for matrices updates, and which one for vectors; asked again after `Moved`."""
        parameters = list(self.parameters())
        return [
            Group("matrices", [each for each in parameters if each.ndim == 2]),
            Group("vectors", [each for each in parameters if each.ndim != 2]),
        ]

    def before_step(self, index: int, steps: int) -> Moved | None:
        """Called before every training step, for schedules of the kind's own; says if a parameter was replaced."""
        return None

    def after_step(self, step: Step) -> None:
        """Called after every update, for thresholds and projections."""

    def facts(self) -> dict[str, float]:
        """What a training report says besides the loss."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """`load_state_dict`, also where the state stores a parameter in another way than this dictionary does now."""
        self.load_state_dict(state)

    # Files.

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that are saved."""
        return dict(self.state_dict())

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write config.json and weights into the folder; `quadric.load` reads them."""
        write_dictionary(folder, self)

    @classmethod
    def from_pretrained(cls, folder_or_hub_id: str | os.PathLike[str]) -> "Self":
        """Load what `save_pretrained` wrote or `push_to_hub` uploaded; `quadric.load` also reads runs.

        Args:
            folder_or_hub_id: a folder, or a hub repository `owner/name`.

        Returns:
            The dictionary, in eval mode.
        """
        # Imported here: the hub is above this room, and a folder needs none of it.
        from quadric.run.folder import load

        loaded = load_pretrained(folder_or_hub_id) if os.path.isdir(folder_or_hub_id) else load(folder_or_hub_id)
        if not isinstance(loaded, cls):
            raise ValueError(f"'{folder_or_hub_id}' holds a {loaded.kind!r}, not a {cls.__name__}; use quadric.load")
        return loaded

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload the dictionary with a model card to the Hugging Face hub; the same as `quadric.push`."""
        from quadric.run.hub import push

        return push(self, repository, **options)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _repr_html_(self) -> str:
        """Kind, sizes, settings and where the activations come from, as a notebook shows them."""
        known = {name: value for name, value in vars(self.provenance).items() if isinstance(value, str)}
        facts = {"kind": self.kind, "d_model": self.d_model} | asdict(self.settings) | known
        return facts_table(type(self).__name__, facts)

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}, d_model={self.d_model}, n_latents={self.n_latents}"


class Autoencoder(Dictionary):
    """A dictionary that works on prepared tokens: checked, in working precision, at unit norm."""

    @abstractmethod
    def encode_prepared(self, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]: ...

    @abstractmethod
    def vectors_of(self, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]: ...

    # The methods below are public. Their arguments are plain tensors because `check_tokens` gives better messages than
    # a type checker would.

    def encode(self, tokens: Rows) -> Float[Tensor, "n k"]:
        """Latents of tokens as they are given; `loss`, `error` and `density` pass them through `prepare` first.

        For the latents that the dictionary was trained with, encode `prepare(activations)`.

        Args:
            tokens: activations (n, d).

        Returns:
            Signed latents (n, k).
        """
        tokens = rows_on(tokens, device_of(self))
        check_tokens(tokens, self.d_model)
        return self.encode_prepared(tokens.to(working_dtype(tokens.dtype, self._dtype)))

    @torch.no_grad()
    def rebuild(self, tokens: Rows) -> Float[Tensor, "n d"]:
        """Reconstruction x̂ of every token at the token's own scale, to replace it in the language model."""
        tokens = rows_on(tokens, device_of(self))
        prepared = self.prepare(tokens)
        norms: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True, dtype=prepared.dtype)
        return self.vectors_of(prepared, self.encode_prepared(prepared)) * (norms / self.lengths_of(prepared))

    def loss(self, tokens: Rows, alpha: float | None = None, mask: Tensor | None = None) -> LossTerms:
        """What the kind trains + alpha · mean density; differentiable.

        For another loss give `fit` its terms, or take them apart: `values_of(terms, ae.step(tokens))`.

        Args:
            tokens: activations (n, d).
            alpha: weight of the density penalty; by default the kind's own.
            mask: (n,) of torch.bool, True where a token counts; all by default.

        Returns:
            `LossTerms(total, error, density)`; the error is that of the product space.
        """
        loss = tuple(
            Density(alpha, warmup=0) if isinstance(term, Density) and alpha is not None else term
            for term in self._own_loss()
        )
        tokens = rows_on(tokens, device_of(self))
        kept = tokens if mask is None else tokens[checked_mask(mask, tokens)]
        total, values = values_of(loss, self.step(kept, loss))
        return LossTerms(total, values["error"], values["density"])

    def _own_loss(self) -> tuple[Term, ...]:
        """The terms of `loss`."""
        return self.settings.default_loss()
