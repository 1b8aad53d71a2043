"""Results of evaluating one autoencoder, and their form for JSON and CSV."""

from dataclasses import dataclass
from typing import Any

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.evaluation.measures import Measures
from quadric.evaluation.recovered import Recovered


@dataclass(frozen=True, kw_only=True)
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
