"""Results of evaluating one autoencoder, and their form in JSON and CSV files.

Beside measures of activations, a result says how well a language model predicts when its activations are replaced by
reconstructions:

    recovered = (ablated − spliced) / (ablated − original)

for cross-entropy and for the divergence KL(original ‖ spliced), with two ablations: the replaced vectors set to zero,
or to the mean vector. 1 means that nothing is lost; 0 is as bad as the ablation. Only tokens that the token rules keep
are replaced; BOS, special tokens and attention sinks are unchanged.

With the paper's lens a bilinear autoencoder reconstructs xxᵀ, which does not contain the sign of x. Its x̂ = √λ₁v₁ takes
the sign for which x̂·x ≥ 0 and the norm of x. Linear dictionaries and those with an affine lens are given the norm as
well, but find the sign themselves; for the latter, √λ₁v₁ with the token's sign is measured beside it. A linear
dictionary that was trained elsewhere on tokens at their own length finds the norm as well.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.files import read_json, write_atomically
from quadric._io.results import csv_of_rows, facts_table, write_result
from quadric.data.provenance import StreamProvenance
from quadric.evaluation.blocks import BlockErrors, Blocks
from quadric.evaluation.measures import Measures
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.storage import weights_sha256

SETTINGS = ("run", "name", "kind", "n_latents", "n_hidden", "lens", "hook_point")
"""Columns that say what was evaluated."""
MEASURED_ON = ("weights_sha256", "corpus", "corpus_revision", "split")
"""Columns that say, with the hook point and the number of tokens, what the numbers are of."""
HELD_OUT = "held_out"
SHARES = ("density", "dense_share", "dead_share", "n_empty", "n_copies", "n_distinct", "floor")
"""Columns that are numbers of `Measures` of the same name."""
IN_RUN = "evaluation.json"
"""File in a run folder with the latest evaluation of its autoencoders."""


class Predictions(NamedTuple):
    """Mean cross-entropy and divergence per token for one way of replacing vectors."""

    cross_entropy: float
    divergence: float
    """KL(original ‖ spliced), in nats."""


class Recovered(NamedTuple):
    """Predictions with reconstructed vectors, and with both ablations."""

    n_tokens: int
    original: float
    """Cross-entropy of the unmodified model."""
    spliced: Predictions
    """With vectors as the dictionary itself decodes them."""
    zero: Predictions
    mean: Predictions
    borrowed: Predictions | None = None
    """With √λ₁v₁, whose sign is taken from the token; None for linear dictionaries. The paper's lens has no other
    decoding, so there it equals `spliced`."""

    def cross_entropy(self, ablation: Predictions, spliced: Predictions | None = None) -> float:
        """(ablated − spliced) / (ablated − original) for the cross-entropy; of `spliced` if no other is given."""
        found = spliced or self.spliced
        return (ablation.cross_entropy - found.cross_entropy) / (ablation.cross_entropy - self.original)

    def divergence(self, ablation: Predictions, spliced: Predictions | None = None) -> float:
        """The same for the divergence, which is zero for the unmodified model."""
        return 1 - (spliced or self.spliced).divergence / ablation.divergence


class PredictionSums:
    """Accumulates cross-entropy and divergence over batches of sequences."""

    def __init__(self) -> None:
        self.n_tokens = 0
        self.cross_entropy = self.divergence = 0.0

    def add(
        self,
        logits: Float[Tensor, "s l v"],
        original: Float[Tensor, "s l v"],
        tokens: Int[Tensor, "s l"],
        mask: Bool[Tensor, "s l"],
    ) -> None:
        """Add the predictions for every token that follows another."""
        for each in zip(logits, original, tokens, mask, strict=True):  # one sequence at a time: logits are large
            self._add_sequence(*each)

    def _add_sequence(self, logits: Tensor, original: Tensor, tokens: Tensor, mask: Tensor) -> None:
        counts = mask[1:] & mask[:-1]
        log_q = torch.log_softmax(logits[:-1][counts], dim=-1)
        log_p = torch.log_softmax(original[:-1][counts], dim=-1)
        self.cross_entropy -= exact(log_q.gather(-1, tokens[1:][counts].unsqueeze(-1))).sum().item()
        self.divergence += exact(log_p.exp() * (log_p - log_q)).sum().item()
        self.n_tokens += int(counts.sum())

    def mean(self) -> Predictions:
        """Means per token."""
        return Predictions(self.cross_entropy / self.n_tokens, self.divergence / self.n_tokens)


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
    weights_sha256: str
    """Hash of the dictionary's tensors: the numbers are of these weights only."""
    corpus: str | None
    """Name of the text; None for rows of a tensor, as the two below."""
    corpus_revision: str | None
    split: str | None
    """The part of the text."""
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

    def to_pandas(self) -> Any:
        """The same as a DataFrame of one row."""
        try:
            import pandas
        except ImportError:
            raise ValueError("a DataFrame needs pandas; install it with: pip install 'quadric[tables]'") from None
        return pandas.DataFrame([self.to_dict()])

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

    def to_dict(self) -> dict[str, Any]:
        """All numbers as one flat dictionary."""
        measures, recovered = self.measures, self.recovered
        row = {
            **{name: getattr(self, name) for name in (*SETTINGS, *MEASURED_ON)},
            "tokens": measures.n_tokens,
            "error": measures.error.mean,
            "error_low": measures.error.low,
            "error_high": measures.error.high,
            **{name: getattr(measures, name) for name in SHARES},
            **{f"error_{name}": getattr(self, f"error_{name}") for name in ("constant", "linear", "quadratic")},
            **_energies(measures.blocks),
        }
        if recovered is None:
            return row
        for name in ("spliced", "zero", "mean"):
            value = getattr(recovered, name)
            row |= {f"cross_entropy_{name}": value.cross_entropy, f"divergence_{name}": value.divergence}
        return row | {
            "spliced_tokens": recovered.n_tokens,
            "cross_entropy_original": recovered.original,
            **{
                f"{what}_recovered_{name}": getattr(recovered, what)(getattr(recovered, name))
                for what in ("cross_entropy", "divergence")
                for name in ("zero", "mean")
            },
            **_with_borrowed_sign(recovered),
        }

    def as_json(self) -> dict[str, Any]:
        """The table row, and the error by active latents and by position."""
        return self.to_dict() | {
            "by_active": [each._asdict() for each in self.measures.by_active],
            "by_position": [each._asdict() for each in self.measures.by_position],
        }


def evaluation_of(
    autoencoder: Dictionary,
    measures: Measures,
    source: StreamProvenance,
    *,
    hook_point: str,
    run: str = "",
    name: str = "",
    recovered: Recovered | None = None,
) -> Evaluation:
    """What was measured, with what there is to say of the dictionary."""
    return Evaluation(
        run=run,
        name=name,
        kind=autoencoder.kind,
        n_latents=autoencoder.n_latents,
        n_hidden=getattr(autoencoder, "n_hidden", None),
        lens=autoencoder.settings.lens_name,
        hook_point=hook_point,
        weights_sha256=weights_sha256(autoencoder),
        corpus=source.corpus,
        corpus_revision=source.corpus_revision,
        split=source.split,
        measures=measures,
        recovered=recovered,
    )


def _with_borrowed_sign(recovered: Recovered) -> dict[str, float | None]:
    """Recovered predictions where the sign of every vector is the token's; None for linear dictionaries."""
    found = recovered.borrowed
    return {
        f"cross_entropy_recovered_{name}_borrowed_sign": None
        if found is None
        else recovered.cross_entropy(getattr(recovered, name), found)
        for name in ("zero", "mean")
    }


def _energies(blocks: BlockErrors | None) -> dict[str, float | None]:
    """Share of the tokens' energy in each block."""
    shares = {f"energy_{name}": blocks and getattr(blocks.energy, name) for name in Blocks._fields}
    return shares | {
        "along_mean": blocks and blocks.along,
        "along_mean_deviation": blocks and blocks.along_deviation,
    }


def write_evaluations(evaluations: list[Evaluation], path: Path) -> None:
    """Write the table (.csv), or the table and the error by position (.json)."""
    write_result(
        path,
        {
            ".csv": lambda: csv_of_rows([each.to_dict() for each in evaluations]),
            ".json": lambda: json.dumps([each.as_json() for each in evaluations], indent=1) + "\n",
        },
    )


def keep_in_runs(evaluations: list[Evaluation]) -> None:
    """Store each evaluation in its run folder, where the site reads it. A lone autoencoder has no run folder.

    Those of other autoencoders stay.
    """
    for run in dict.fromkeys(each.run for each in evaluations):
        if (Path(run) / "run.json").is_file():
            rows = {row["name"]: row for row in rows_in_run(Path(run))}
            rows |= {each.name: each.as_json() for each in evaluations if each.run == run}
            write_atomically(Path(run) / IN_RUN, (json.dumps(list(rows.values()), indent=1) + "\n").encode())


def rows_in_run(run: Path) -> list[dict[str, Any]]:
    """The latest evaluation of every autoencoder of a run that was evaluated, whatever it is of."""
    path = run / IN_RUN
    rows = read_json(path, _REMEDY) if path.is_file() else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {"name", "error"} <= row.keys() for row in rows):
        raise ValueError(f"{path} is not a list of evaluations; {_REMEDY}")
    return rows


def kept_in_run(run: Path, name: str, autoencoder: Dictionary) -> dict[str, Any] | None:
    """Latest stored evaluation of an autoencoder of a run on held-out text of its own corpus, or None.

    One of other weights, such as those that the run had before it was trained further, is not that of the autoencoder.
    """
    expected = {"weights_sha256": weights_sha256(autoencoder), "split": HELD_OUT}
    if (revision := autoencoder.provenance.corpus_revision) is not None:
        expected["corpus_revision"] = revision
    rows = (row for row in rows_in_run(run) if row["name"] == name)
    return next((row for row in rows if expected.items() <= row.items()), None)


_REMEDY = "delete it if it is of Quadric, and run quadric evaluate again"
