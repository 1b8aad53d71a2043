"""Does ablating a latent hurt the tokens on which it fires, and no others?

Every latent is ablated at all positions but the first. The increase of the cross-entropy, and KL(unmodified ‖ ablated),
of the prediction made at a token are averaged over the tokens on which the latent fires, and over the others of the
same sequences. Sequences are chosen by how often the latent fires in them, never by what ablation does. Two controls
are measured at the same tokens: another latent of similar density, drawn at random, and the latent turned by a random
rotation, which has the same spectrum.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.results import csv_of_rows, json_text, write_result
from quadric.data.forward import capture, predictions
from quadric.data.hook_points import HookPoint
from quadric.data.models import LanguageModel
from quadric.evaluation.measures import Interval, student_interval
from quadric.evidence import Evidence
from quadric.geometry.neighbours import redundancy
from quadric.interventions.combining import Intervention, unit_and_norm
from quadric.interventions.latents import Latent
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.objective import unit_tokens
from quadric.studies.steering.measures import divergence
from quadric.studies.steering.methods import Change, project_along, rotated
from quadric.studies.steering.reading import recorded, steered

AblationMode = Literal["zero", "rest"]
FEWEST_FIRING = 8
"""A latent that fires on fewer tokens of the text is passed over."""
N_SIMILAR = 20
"""Latents of nearest density, among which the control is drawn."""
SEQUENCES_AT_ONCE = 16


class Harm(NamedTuple):
    """What an ablation does to predictions, at the tokens on which the latent fires and at the others."""

    fires: float
    """Increase of the cross-entropy per token."""
    elsewhere: float
    fires_divergence: float
    elsewhere_divergence: float


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """One latent."""

    latent: int
    label: str
    mode: AblationMode
    density: float
    n_fires: int
    """Tokens on which it fires, in the sequences that were read."""
    n_elsewhere: int
    own: Harm
    """Of the latent itself."""
    other: Harm
    """Of another latent of similar density, at the tokens of this one."""
    turned: Harm
    """Of the same form, turned at random."""
    other_latent: int

    def as_row(self) -> dict[str, Any]:
        """One flat table row."""
        flat = {name: value for name, value in asdict(self).items() if not isinstance(value, tuple)}
        for name in ("own", "other", "turned"):
            flat |= {f"{name}_{measure}": value for measure, value in getattr(self, name)._asdict().items()}
        return flat


class AblationSummary(NamedTuple):
    """Over all latents, for the latents themselves or for one control."""

    name: str
    means: dict[str, Interval]
    """By field of `Harm`; Student's intervals over latents."""
    more_where_fires: int
    """Latents for which the increase of the cross-entropy is larger where the latent fires than elsewhere."""
    n_latents: int


def ablation_study(
    model: LanguageModel,
    point: HookPoint,
    autoencoder: Dictionary,
    evidence: Evidence,
    sequences: Int[Tensor, "s l"],
    *,
    n_latents: int = 50,
    mode: AblationMode = "zero",
    n_sequences: int = 6,
    seed: int = 0,
    known: Iterable[AblationRow] = (),
    on_row: Callable[[AblationRow], None] = lambda row: None,
) -> list[AblationRow]:
    """Ablate the sparsest distinct latents one by one.

    Args:
        model: The language model.
        point: Hook point of the dictionary.
        autoencoder: The dictionary.
        evidence: Of the dictionary.
        sequences: Token ids of text that the dictionary was not trained on.
        n_latents: How many latents.
        mode: "zero": what a token has in the latent's own space, about the mean token, is removed. "rest": z is
            projected to its median.
        n_sequences: Sequences read per latent: those in which it fires most.
        seed: Of the controls.
        known: Rows of an earlier call, which are not measured again.
        on_row: Called with every new row.

    Returns:
        One row per latent, by density.

    Example:
        >>> from quadric.studies.steering import ablation_study, open_run
        >>> opened = open_run("runs/demo")
        >>> sentences = ["Monday comes after Sunday, and then comes Tuesday."] * 4
        >>> sequences = tokenizer(sentences, return_tensors="pt").input_ids
        >>> rows = ablation_study(
        ...     opened.model, opened.point, opened.autoencoder, opened.evidence, sequences, n_latents=2, n_sequences=2
        ... )
        >>> len(rows)
        2
    """
    sequences = sequences.to(model.device)
    fires = _firing(model, point, autoencoder, evidence, sequences)
    done = {row.latent: row for row in known}
    ranked = sparsest_distinct(autoencoder, evidence)
    chosen = [each for each in ranked if int(fires[each].sum()) >= FEWEST_FIRING][:n_latents]
    if not chosen:
        raise ValueError(f"no latent fires on {FEWEST_FIRING} tokens of the text; give more text")
    for latent in chosen:
        if latent not in done:
            study = _OneLatent(model, point, autoencoder, evidence, sequences, fires[latent], n_sequences)
            done[latent] = study.row(latent, similar(ranked, latent, seed), mode, seed)
            on_row(done[latent])
    return [done[latent] for latent in chosen]


def summarize(rows: Sequence[AblationRow]) -> list[AblationSummary]:
    """Means over latents, for the latents themselves and for both controls."""
    found = []
    for name in ("own", "other", "turned"):
        harms: list[Harm] = [getattr(row, name) for row in rows]
        means = {field: student_interval([getattr(harm, field) for harm in harms]) for field in Harm._fields}
        found.append(AblationSummary(name, means, sum(each.fires > each.elsewhere for each in harms), len(harms)))
    return found


def write_ablation(rows: Sequence[AblationRow], path: Path) -> None:
    """Write one row per latent, as .csv or .json."""
    flat = [row.as_row() for row in rows]
    write_result(path, {".csv": lambda: csv_of_rows(flat), ".json": lambda: json_text(flat, indent=1)})


def sparsest_distinct(autoencoder: Dictionary, evidence: Evidence) -> list[int]:
    """Latents that are neither empty nor copies, by density ascending."""
    known = redundancy(autoencoder)
    distinct = (~known.empty & ~known.copy).tolist()
    return [int(each) for each in evidence.statistics.density.argsort(kind="stable") if distinct[int(each)]]


def similar(ranked: Sequence[int], latent: int, seed: int) -> int:
    """Another latent, drawn among those nearest in rank."""
    place = list(ranked).index(latent)
    near = sorted((each for each in range(len(ranked)) if each != place), key=lambda each: abs(each - place))
    drawn = torch.randint(min(N_SIMILAR, len(near)), (1,), generator=torch.Generator().manual_seed(seed + latent))
    return ranked[near[int(drawn)]]


def about_centre(autoencoder: Dictionary, evidence: Evidence, latent: int) -> Latent:
    """A latent about the mean token: that of the lens, or for a raw dictionary that of the evidence."""
    return autoencoder.latent(latent, centre=torch.from_numpy(evidence.calibration.centre.copy()))


@torch.no_grad()
def _firing(
    model: LanguageModel,
    point: HookPoint,
    autoencoder: Dictionary,
    evidence: Evidence,
    sequences: Int[Tensor, "s l"],
) -> Bool[Tensor, "k s l"]:
    """Where each latent fires, among the tokens whose prediction counts: not the first, nor the last."""
    rest = torch.from_numpy(evidence.calibration.signs * evidence.calibration.rest)
    threshold = evidence.settings.firing_rms * torch.from_numpy(evidence.statistics.mean_square**0.5)
    found = []
    for part in torch.split(sequences, SEQUENCES_AT_ONCE):
        read = capture(model, [point], part)[str(point)]
        values = autoencoder.encode(unit_tokens(read.flatten(0, 1))).float().cpu()  # as the evidence has them
        found.append(((values - rest).abs() > threshold).view(*part.shape, -1))
    fires = torch.cat(found).movedim(-1, 0).contiguous()
    fires[:, :, [0, -1]] = False
    return fires


class _OneLatent:
    """The sequences in which one latent fires most, with what the unmodified model predicts."""

    def __init__(
        self,
        model: LanguageModel,
        point: HookPoint,
        autoencoder: Dictionary,
        evidence: Evidence,
        sequences: Int[Tensor, "s l"],
        fires: Bool[Tensor, "s l"],
        n_sequences: int,
    ) -> None:
        self.model, self.point, self.autoencoder, self.evidence = model, point, autoencoder, evidence
        most = fires.sum(1).argsort(descending=True, stable=True)[:n_sequences]
        self.tokens, self.fires = sequences[most], fires[most]
        self.others = ~self.fires
        self.others[:, [0, -1]] = False
        with recorded(model, point) as known:
            self.before = predictions(model, self.tokens)[:, :-1].log_softmax(-1)
        self.known = known[0]

    def row(self, latent: int, other: int, mode: AblationMode, seed: int) -> AblationRow:
        own = about_centre(self.autoencoder, self.evidence, latent)
        return AblationRow(
            latent=latent,
            label=self.evidence.labels.of(latent),
            mode=mode,
            density=float(self.evidence.statistics.density[latent]),
            n_fires=int(self.fires.sum()),
            n_elsewhere=int(self.others.sum()),
            own=self.harm(self.ablated(own, mode)),
            other=self.harm(self.ablated(about_centre(self.autoencoder, self.evidence, other), mode)),
            turned=self.harm(self.ablated_turned(own, mode, seed)),
            other_latent=other,
        )

    def ablated(self, latent: Latent, mode: AblationMode) -> Change:
        return latent.ablate(mode="zero") if mode == "zero" else latent.ablate(mode="rest", rest=self.evidence)

    def ablated_turned(self, latent: Latent, mode: AblationMode, seed: int) -> Change:
        axes = rotated(latent.axes, torch.Generator().manual_seed(seed + latent.index))
        if mode == "zero":
            return Intervention(self.autoencoder, latent.index, axes, "turned", lambda placed, _: -placed.coordinates)
        unit, _ = unit_and_norm(self.known[:, 1:].flatten(0, 1), self.autoencoder.d_model)
        median = float(axes.to(unit.device).place(unit).value.median())
        return project_along(self.autoencoder, axes, median)

    def harm(self, change: Change) -> Harm:
        with steered(self.model, self.point, change, self.known):
            now = predictions(self.model, self.tokens)[:, :-1].log_softmax(-1)
        following = self.tokens[:, 1:, None]
        increase = (self.before.gather(-1, following) - now.gather(-1, following))[..., 0]
        moved = divergence(self.before, now)
        return Harm(*(_mean(each, where[:, :-1]) for each in (increase, moved) for where in (self.fires, self.others)))


def _mean(values: Float[Tensor, "s l"], where: Bool[Tensor, "s l"]) -> float:
    return float(exact(values[where]).mean())
