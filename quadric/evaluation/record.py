"""Results of evaluating one autoencoder, and their form for JSON and CSV."""

from dataclasses import dataclass
from typing import Any

from quadric._io.results import facts_table
from quadric.evaluation.blocks import Blocks
from quadric.evaluation.measures import Measures
from quadric.evaluation.recovered import Recovered
from quadric.model import Dictionary

SETTINGS = ("run", "name", "kind", "n_latents", "n_hidden", "lens", "hook_point")
"""Columns that say what was evaluated."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """Evaluation of one autoencoder on held-out text."""

    run: str
    name: str
    kind: str
    """Name of the kind."""
    n_latents: int
    n_hidden: int | None
    lens: str | None
    """Kind of the lens; None where the kind has none."""
    hook_point: str
    measures: Measures
    recovered: Recovered | None
    """None if it was not requested."""

    @property
    def error(self) -> float:
        """Mean product-space error, ‖X̂ − xxᵀ‖²/‖xxᵀ‖²."""
        return self.measures.error.mean

    @property
    def density(self) -> float:
        """Hoyer density, averaged over latents."""
        return self.measures.density

    @property
    def dense_share(self) -> float:
        """Share of latents that are dense: Hoyer density over 0.5."""
        return self.measures.dense_share

    @property
    def dead_share(self) -> float:
        """Share of latents that never reach 1 % of the median latent."""
        return self.measures.dead_share

    @property
    def error_constant(self) -> float | None:
        """Relative error of the constant block, α²mmᵀ with m the direction of the mean token."""
        return self.measures.blocks.error.constant if self.measures.blocks else None

    @property
    def error_linear(self) -> float | None:
        """Relative error of the linear block, α(myᵀ + ymᵀ)."""
        return self.measures.blocks.error.linear if self.measures.blocks else None

    @property
    def error_quadratic(self) -> float | None:
        """Relative error of the quadratic block yyᵀ, y ⟂ m: what is left of the shapes."""
        return self.measures.blocks.error.quadratic if self.measures.blocks else None

    @property
    def floor(self) -> float | None:
        """Least error that any tied dictionary of this size could have on such tokens, by PCA of xxᵀ."""
        return self.measures.floor

    @property
    def n_empty(self) -> int | None:
        """Latents without a form; None for a kind whose forms are not known, as are the two below."""
        return self.measures.n_empty

    @property
    def n_copies(self) -> int | None:
        """Latents whose form is that of an earlier one."""
        return self.measures.n_copies

    @property
    def n_distinct(self) -> int | None:
        """Latents that are neither empty nor copies."""
        return self.measures.n_distinct

    def to_dict(self) -> dict[str, Any]:
        """All numbers as one flat dictionary."""
        return self.as_row()

    def to_pandas(self) -> Any:
        """The same as a DataFrame of one row."""
        try:
            import pandas
        except ImportError:
            raise ValueError("a DataFrame needs pandas; install it with: pip install 'quadric[tables]'") from None
        return pandas.DataFrame([self.as_row()])

    def __str__(self) -> str:
        rows = self._rows()
        width = max(map(len, rows))
        return "\n".join([self._title(), *(f"  {name:<{width}}  {value}" for name, value in rows.items())])

    def _repr_html_(self) -> str:
        return facts_table(self._title(), self._rows())

    def _rows(self) -> dict[str, str]:
        """What is printed, by name."""
        measures = self.measures
        rows = {
            "error": f"{self.error:.4f}  (95 % interval {measures.error.low:.4f} to {measures.error.high:.4f})",
            "density": f"{self.density:.3f}",
            "dense latents": f"{self.dense_share:.1%}",
            "dead latents": f"{self.dead_share:.1%}",
        }
        if self.n_distinct is not None:
            rows["distinct latents"] = f"{self.n_distinct:,}  ({self.n_empty:,} empty, {self.n_copies:,} copies)"
        rows["tokens"] = f"{measures.n_tokens:,}"
        rows |= self._reference_rows()
        if self.recovered is not None:
            rows["cross-entropy recovered"] = f"{self.recovered.cross_entropy(self.recovered.zero):.1%}"
        return rows

    def _reference_rows(self) -> dict[str, str]:
        """What the error is to be compared with: the floor, and the blocks that it is made of."""
        rows = {} if self.floor is None else {"floor (PCA)": f"{self.floor:.4f}"}
        if (blocks := self.measures.blocks) is None:
            return rows
        parts = zip(("constant", "linear", "quadratic"), blocks.error, blocks.energy, strict=True)
        return rows | {f"error, {name}": f"{error:.3f}  ({energy:.0%} of the energy)" for name, error, energy in parts}

    def __repr__(self) -> str:
        return (
            f"Evaluation({self._title()}: error={self.error:.4f}, density={self.density:.3f}, "
            f"dense={self.dense_share:.1%}, dead={self.dead_share:.1%}, tokens={self.measures.n_tokens:,})"
        )

    def _title(self) -> str:
        return self.name or f"{self.kind} with {self.n_latents:,} latents"

    def as_row(self) -> dict[str, Any]:
        """One flat table row."""
        measures, recovered = self.measures, self.recovered
        row = {
            **{name: getattr(self, name) for name in SETTINGS},
            "tokens": measures.n_tokens,
            "error": measures.error.mean,
            "error_low": measures.error.low,
            "error_high": measures.error.high,
            "density": measures.density,
            "dense_share": measures.dense_share,
            "dead_share": measures.dead_share,
            "n_empty": measures.n_empty,
            "n_copies": measures.n_copies,
            "n_distinct": measures.n_distinct,
            "floor": measures.floor,
            **{f"error_{name}": getattr(self, f"error_{name}") for name in ("constant", "linear", "quadratic")},
            **_energies(measures),
        }
        if recovered is None:
            return row
        for name in ("spliced", "zero", "mean"):
            value = getattr(recovered, name)
            row |= {f"cross_entropy_{name}": value.cross_entropy, f"divergence_{name}": value.divergence}
        return row | {
            "spliced_tokens": recovered.n_tokens,
            "cross_entropy_original": recovered.original,
            "cross_entropy_recovered_zero": recovered.cross_entropy(recovered.zero),
            "cross_entropy_recovered_mean": recovered.cross_entropy(recovered.mean),
            "divergence_recovered_zero": recovered.divergence(recovered.zero),
            "divergence_recovered_mean": recovered.divergence(recovered.mean),
            **_with_borrowed_sign(recovered),
        }

    def as_json(self) -> dict[str, Any]:
        """The table row, and the error by active latents and by position."""
        return self.as_row() | {
            "by_active": [each._asdict() for each in self.measures.by_active],
            "by_position": [each._asdict() for each in self.measures.by_position],
        }


def _with_borrowed_sign(recovered: Recovered) -> dict[str, float | None]:
    """Recovered predictions where the sign of every vector is the token's; None for linear dictionaries."""
    found = recovered.borrowed
    return {
        f"cross_entropy_recovered_{name}_borrowed_sign": None
        if found is None
        else recovered.cross_entropy(getattr(recovered, name), found)
        for name in ("zero", "mean")
    }


def lens_of(autoencoder: Dictionary) -> str | None:
    """The kind of the lens; None where the kind has none."""
    return autoencoder.settings.lens_name


def _energies(measures: Measures) -> dict[str, float | None]:
    """Share of the tokens' energy in each block."""
    energy = measures.blocks.energy._asdict() if measures.blocks else dict.fromkeys(Blocks._fields)
    shares = {f"energy_{name}": value for name, value in energy.items()}
    blocks = measures.blocks
    return shares | {
        "along_mean": blocks.along if blocks else None,
        "along_mean_deviation": blocks.along_deviation if blocks else None,
    }
