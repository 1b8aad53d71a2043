"""What a dense latent is: a linear function of the token, times its mean.

For the dictionary of the paper's lens and for the default one, on the activations of benchmarks/bench_lens.py: density
of every latent on held-out tokens, share of its variance that the best linear function explains (fitted on one half of
the tokens, measured on the other), and how much of the mean direction its two leading eigenvectors hold. Writes
benchmarks/results/dense.md and docs/images/dense-latents.png.

    python benchmarks/bench_dense.py
"""

from pathlib import Path
from typing import NamedTuple

import torch
from bench_lens import BATCH, DICTIONARIES, N_LATENTS, STEPS, WORK
from linearity import linear_share
from measure import write_table
from torch import Tensor

import quadric
from quadric.data.sources import ActivationsOnDisk
from quadric.geometry import redundancy, spectrum
from quadric.model import BilinearAutoencoder
from quadric.model.objective import unit_tokens
from quadric.studies.figures.style import SKY, VERMILION, Drawn, panels, save, styled

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHOWN = {"paper, 6 atoms (the demo before)": VERMILION, "affine, 32 strongest (default)": SKY}
DENSE = 0.5


class Latents(NamedTuple):
    """One number per latent that is not empty."""

    density: Tensor
    linear: Tensor
    """R² of z by the best linear function of the unit token, on tokens that it was not fitted to."""
    mean_share: Tensor
    """Energy of the mean direction inside the two leading eigenvectors of the form on the raw token."""


def rows(split: str) -> Tensor:
    source = ActivationsOnDisk(WORK / f"smollm2-15-{split}")
    batches = source.stream(batch_tokens=8192, seed=None)
    return torch.cat([batch.activations[source.hook_points[0]].float() for batch in batches])


def measured(autoencoder: BilinearAutoencoder, tokens: Tensor) -> Latents:
    unit = unit_tokens(tokens)
    kept = (~redundancy(autoencoder).empty).nonzero()[:, 0]
    mean = torch.nn.functional.normalize(unit.mean(0), dim=0)
    raw = [autoencoder.lens.to_raw(spectrum(autoencoder, i).eigenvectors[:, :2].mT.float()) for i in kept.tolist()]
    bases = torch.linalg.qr(torch.stack(raw).mT).Q
    shares = (bases.mT @ mean).square().sum(-1)
    return Latents(autoencoder.density(tokens)[kept], linear_share(unit, autoencoder.encode(unit)[:, kept]), shares)


def main() -> None:
    torch.manual_seed(0)
    tokens = rows("held_out")
    found = {}
    for name in SHOWN:
        autoencoder = quadric.fit(
            str(WORK / "smollm2-15-train"), N_LATENTS, steps=STEPS, batch_tokens=BATCH, **DICTIONARIES[name]
        )
        assert isinstance(autoencoder, BilinearAutoencoder)
        with torch.no_grad():
            found[name] = measured(autoencoder, tokens)
    draw(found)
    table = []
    for name, each in found.items():
        for kind, chosen in (("dense", each.density > DENSE), ("others", each.density <= DENSE)):
            linear, share = each.linear[chosen], each.mean_share[chosen]
            cells = [f"{linear.median():.2f}", f"{(share > 0.5).float().mean():.1%}"] if chosen.any() else ["–", "–"]
            table.append([name, kind, str(int(chosen.sum())), *cells])
    notes = (
        "`python benchmarks/bench_lens.py`, then `bench_dense.py`: smollm2, layer 15, k = 512, seed 0, 24,000 held-out "
        "tokens. Dense: Hoyer density over 0.5. Linear: R² of z by the best linear function of the unit token, fitted "
        "on one half of the tokens and measured on the other, median over latents. Mean: latents whose two leading "
        "eigenvectors hold over half of the mean direction."
    )
    write_table("dense", "What a dense latent is", ["dictionary", "latents", "number", "linear", "mean"], table, notes)


def draw(found: dict[str, Latents]) -> None:
    """Density against the share of each latent that is linear."""
    lines = [
        {"dictionary": name, "density": density, "linear": linear}
        for name, each in found.items()
        for density, linear in zip(each.density.tolist(), each.linear.tolist(), strict=True)
    ]
    with styled():
        figure, [axes] = panels(1, 2, 2.6, sharey=True, sharex=True)
        for place, (name, each) in zip(axes, found.items(), strict=True):
            place.scatter(each.linear, each.density, s=6, color=SHOWN[name], alpha=0.6, linewidths=0)
            place.set(title=name, xlabel="linear share of the latent (held-out R²)", xlim=(0, 1), ylim=(0, 1))
            place.axhline(DENSE, color="black", linewidth=0.6, linestyle=":")
        axes[0].set_ylabel("density")
        save(Drawn(figure, lines), IMAGES, "dense-latents")


if __name__ == "__main__":
    main()
