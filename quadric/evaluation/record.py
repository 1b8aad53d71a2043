"""Results of evaluating one autoencoder, and their form for JSON and CSV."""

from dataclasses import dataclass
from typing import Any

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.evaluation.measures import Measures
from quadric.evaluation.recovered import Recovered


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """Evaluation of one autoencoder on held-out text."""

    run: str
    name: str
    kind: str
    """The prior, or the kind of a linear baseline."""
    n_latents: int
    n_hidden: int | None
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
        measures = self.measures
        rows = {
            "error": f"{self.error:.4f}  (95 % interval {measures.error.low:.4f} to {measures.error.high:.4f})",
            "density": f"{self.density:.3f}",
            "dense latents": f"{self.dense_share:.1%}",
            "dead latents": f"{self.dead_share:.1%}",
            "tokens": f"{measures.n_tokens:,}",
        }
        if self.recovered is not None:
            rows["cross-entropy recovered"] = f"{self.recovered.cross_entropy(self.recovered.zero):.1%}"
        width = max(map(len, rows))
        return "\n".join([self._title(), *(f"  {name:<{width}}  {value}" for name, value in rows.items())])

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
            **{name: getattr(self, name) for name in ("run", "name", "kind", "n_latents", "n_hidden", "hook_point")},
            "tokens": measures.n_tokens,
            "error": measures.error.mean,
            "error_low": measures.error.low,
            "error_high": measures.error.high,
            "density": measures.density,
            "dense_share": measures.dense_share,
            "dead_share": measures.dead_share,
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
        }

    def as_json(self) -> dict[str, Any]:
        """The table row and the error by position."""
        return self.as_row() | {"by_position": [each._asdict() for each in self.measures.by_position]}


def kind_of(autoencoder: Autoencoder) -> str:
    """The prior, or the kind of a linear baseline."""
    return autoencoder.prior if isinstance(autoencoder, BilinearAutoencoder) else autoencoder.kind
