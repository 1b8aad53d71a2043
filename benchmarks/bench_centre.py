"""How much of a token is its mean: energy of xxᵀ by block, at every layer of a language model.

With m the direction of the mean unit token and u = αm + y, the energy of uuᵀ is α⁴ (constant) + 2α²‖y‖² (linear) +
‖y‖⁴ (quadratic). Writes benchmarks/results/centre-MODEL.md and the figure docs/images/centre-MODEL.png (.svg, .csv).

    python benchmarks/bench_centre.py
    python benchmarks/bench_centre.py --model gemma-3-270m.gguf --name gemma3-270m
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import torch
from measure import write_table
from torch import Tensor

import quadric
from quadric.data import find_model
from quadric.data.models import load_shape
from quadric.model.objective import unit_tokens
from quadric.studies.figures.style import BLACK, GREY, SKY, VERMILION, Drawn, panels, save, styled

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TOKENS = 8192
BLOCKS = ("constant", "linear", "quadratic")


class LayerEnergy(NamedTuple):
    """Norm of the mean unit token, how constant α is, and the share of each block."""

    layer: int
    mean_norm: float
    alpha_spread: float
    """Standard deviation of α over its mean."""
    shares: list[float]


def energy_of(layer: int, tokens: Tensor) -> LayerEnergy:
    """The blocks of one layer."""
    unit = unit_tokens(tokens).double()
    mean = unit.mean(0)
    along = unit @ (mean / mean.norm())
    rest = 1 - along.square()
    energies = torch.stack([along**4, 2 * along.square() * rest, rest.square()]).mean(1)
    return LayerEnergy(layer, mean.norm().item(), (along.std() / along.mean()).item(), energies.tolist())


def energies(model: str) -> list[LayerEnergy]:
    """All layers of the model, from one pass over some text."""
    n_layers = load_shape(find_model(model)).n_layers
    acts = quadric.harvest(model, "wiki-leads", layer=list(range(n_layers)), tokens=TOKENS)
    return [energy_of(layer, acts[name]) for layer, name in enumerate(acts.hook_points)]


def draw(found: list[LayerEnergy], name: str) -> None:
    """Stacked shares over layers."""
    rows = [{"layer": each.layer, "mean_norm": each.mean_norm, **dict(zip(BLOCKS, each.shares, strict=True))}
            for each in found]  # fmt: skip
    with styled():
        figure, [[axes]] = panels(1, 1, 2.6)
        layers = [each.layer for each in found]
        shares = [[each.shares[block] for each in found] for block in range(3)]
        axes.stackplot(layers, *shares, labels=BLOCKS, colors=(GREY, SKY, VERMILION), alpha=0.8)
        axes.plot(layers, [each.mean_norm for each in found], color=BLACK, label="norm of the mean unit token")
        axes.set(xlabel="layer", ylabel="share of the energy of xxᵀ", xlim=(layers[0], layers[-1]), ylim=(0, 1))
        axes.set_title(name)
        figure.legend(loc="outside right center")
        save(Drawn(figure, rows), IMAGES, f"centre-{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="hub id, folder or .gguf file")
    parser.add_argument("--name", default="smollm2", help="name of the model in the files")
    options = parser.parse_args()
    found = energies(options.model)
    draw(found, options.name)
    rows = [
        [
            str(each.layer),
            f"{each.mean_norm:.3f}",
            f"{each.alpha_spread:.3f}",
            *(f"{share:.1%}" for share in each.shares),
        ]
        for each in found
    ]
    header = ["layer", "norm of the mean unit token", "spread of α / mean", *BLOCKS]
    notes = (
        f"`python benchmarks/bench_centre.py --name {options.name}`: residual stream into each layer, {TOKENS:,} "
        "tokens of wiki-leads, special tokens and outliers dropped. Shares of the energy of uuᵀ about the mean token."
    )
    write_table(f"centre-{options.name}", f"Energy by block: {options.name}", header, rows, notes)


if __name__ == "__main__":
    main()
