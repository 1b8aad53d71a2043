"""One finished cell as one flat row: its settings, its reconstruction quality and its complexity."""

from typing import Any

from quadric.evaluation import Evaluation
from quadric.evaluation.active import error_at, fewest_active
from quadric.evaluation.record import SETTINGS
from quadric.geometry import description_length, statistics
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.run.config import RunConfig
from quadric.train import AutoencoderConfig

Row = dict[str, Any]
"""Value by column name; None where a column does not apply to the cell."""

COMPARED_ACTIVE = 32
"""Latents per token in the paper's TopK baseline."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def cell_row(
    cell: AutoencoderConfig, config: RunConfig, autoencoder: Autoencoder, evaluation: Evaluation, group: str
) -> Row:
    """All columns of one cell, in the order of the table."""
    bilinear = isinstance(autoencoder, BilinearAutoencoder)
    measured = evaluation.as_row()
    for name in SETTINGS:
        measured.pop(name)
    return {
        "cell": cell.name,
        "group": group,
        "model": autoencoder.provenance.model,
        "hook_point": cell.hook_point,
        "layer": int(cell.hook_point.rpartition(".")[2]),
        "kind": evaluation.kind,
        "lens": evaluation.lens,
        "alpha": cell.alpha if bilinear else None,
        "seed": cell.seed,
        "d_model": autoencoder.d_model,
        "n_latents": autoencoder.n_latents,
        "n_hidden": evaluation.n_hidden,
        "mixing_density": autoencoder.mixing_density if bilinear else None,
        "n_active": None if bilinear else cell.n_active,
        "top_latents": cell.top_latents,
        "mean_penalty": cell.mean_penalty if bilinear else None,
        "overlap_penalty": cell.overlap_penalty if bilinear else None,
        "steps": config.training.steps,
        "sequences_per_step": config.sequences_per_step,
        "block_length": config.reading.corpus.block_length,
        **measured,
        **_active(evaluation),
        **_geometry(autoencoder),
    }


def _active(evaluation: Evaluation) -> Row:
    """Latents per token that come close to the error of all, and the error of the 32 strongest."""
    curve = evaluation.measures.by_active
    return {"active_per_token": fewest_active(curve), "error_of_32_active": error_at(curve, COMPARED_ACTIVE)}


def _geometry(autoencoder: Autoencoder) -> Row:
    """Bits and effective ranks; None for linear baselines, which have no forms."""
    ranks = [f"effective_rank_{round(100 * q):02d}" for q in QUANTILES]
    names = ["bits", "bits_a_latent", "effective_rank_mean", *ranks, "captured_1", "captured_3", "captured_5"]
    if not isinstance(autoencoder, BilinearAutoencoder):
        return dict.fromkeys(names)
    table, bits = statistics(autoencoder), description_length(autoencoder)
    rank = table.effective_rank.double()
    quantiles = rank.quantile(rank.new_tensor(QUANTILES)).tolist()
    captured = [table[name].median().item() for name in ("captured_1", "captured", "captured_5")]
    values = [bits.total, bits.alone.mean().item(), rank.mean().item(), *quantiles, *captured]
    return dict(zip(names, values, strict=True))
