"""Which latents bend, and which show a shape: two numbers per latent beside controls that should have neither.

The latents are those of a finished run, the tokens those of its cache. Controls of bending are a TopK dictionary,
trained here on the same cache, with each latent's value before the strongest are chosen, and the run's forms in random
directions. Controls of shape are the same tokens on other axes, and Gaussian tokens.

    quadric demo
    python benchmarks/bench_beyond.py --run runs/demo
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from measure import RESULTS, environment
from structure import Structure, gaussian_like, leading_axes, random_axes, structure
from torch import Tensor

import quadric
from quadric._io.files import write_atomically
from quadric.data import ActivationCache, BatchSize, CachedStream
from quadric.data.batches import concatenated
from quadric.data.models import find_model, load_shape
from quadric.evidence.bending import beyond_one_direction, beyond_two_directions
from quadric.evidence.calibration import RIDGE
from quadric.evidence.labels import readable
from quadric.geometry import decompose
from quadric.model import Dictionary, TopKAutoencoder
from quadric.model.forms import Forms

Array = np.ndarray

TOPK_STEPS = 300
N_CONTROLS = 128
N_BEST = 100
"""Latents whose share beyond two directions is measured."""
STRONGEST = 600
"""Points of a latent."""
DIRECTIONS = 4
"""Leading axes that are tried for every latent."""
CALIBRATED = 16_384
AT_ONCE = 8_192
NUMBERS = Structure._fields
OWN = "the dictionary"
NOTABLE = 0.05


@dataclass(frozen=True, eq=False)
class Text:
    """The tokens of a cache."""

    x: Float[Tensor, "n d"]
    words: Int64[Array, " n"]
    next_words: Int64[Array, " n"]


class Bent(NamedTuple):
    """How much some latents bend, by three measures."""

    not_linear: Float[Array, " k"]
    one: Float[Array, " k"]
    two: Float[Array, " b"]
    """Of the best by `one`."""
    seconds: tuple[float, float]
    """Per latent, of `one` and `two`."""


def read(cache: ActivationCache) -> Text:
    """All tokens, the word of each and the word after it; spellings that differ in case or spaces are one word."""
    (hook_point,) = cache.hook_points
    rows = concatenated(list(CachedStream(cache, batch=BatchSize(tokens=AT_ONCE), seed=None)))
    tokenizer = load_shape(find_model(cache.provenance.model)).tokenizer
    ids, inverse = rows.token_ids.unique(return_inverse=True)
    spelt = [readable(letters).casefold() for letters in tokenizer.token_bytes(ids.tolist())]
    numbers: dict[str, int] = {}
    word_of = np.array([numbers.setdefault(word, len(numbers)) for word in spelt])
    words = word_of[inverse.numpy()]
    follows = (rows.sequences.diff() == 0) & (rows.positions.diff() == 1)
    next_words = np.append(np.where(follows.numpy(), words[1:], -1), -1)
    return Text(rows.activations[hook_point].float(), words, next_words)


def linear_predictors(v: Float[Tensor, "n d"], z: Float[Tensor, "n k"]) -> Float[Tensor, "d k"]:
    """Ridge regression over the first tokens, as in the calibration of evidence."""
    first, target = v[:CALIBRATED].double(), z[:CALIBRATED].double()
    first, target = first - first.mean(0), target - target.mean(0)
    gram = first.mT @ first
    ridge = RIDGE * float(gram.trace()) / len(first)
    return torch.linalg.solve(gram + ridge * torch.eye(len(gram)), first.mT @ target).float()


def not_linear(v: Float[Tensor, "n d"], z: Float[Tensor, "n k"]) -> Float[Array, " k"]:
    """The old number: what the best linear predictor, from the first tokens, leaves of the variance of all."""
    predicted = v.double() @ linear_predictors(v, z).double()
    predicted, exact = predicted - predicted.mean(0), z.double() - z.double().mean(0)
    shared = (predicted * exact).sum(0).square() / (predicted.square().sum(0) * exact.square().sum(0))
    return np.asarray((1 - shared).numpy())


@torch.no_grad()
def encoded(dictionary: Dictionary, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    return torch.cat([dictionary.encode(part) for part in x.split(AT_ONCE)])


@torch.no_grad()
def before_choice(dictionary: TopKAutoencoder, x: Float[Tensor, "n d"], latents: Tensor) -> Float[Tensor, "n c"]:
    """Values of a TopK dictionary before its strongest latents are chosen."""
    found = dictionary.forms()
    read_of = dictionary.prepare(x) - found.bias
    return torch.relu(read_of @ found.reads[latents].mT + found.constants[latents])


@torch.no_grad()
def turned_values(forms: Forms, v: Float[Tensor, "n d"], rotation: Float[Tensor, "d d"]) -> Float[Tensor, "n k"]:
    """Values of the same forms if every token about the centre were rotated: the same spectra, random directions."""
    constant = forms.lens.constant.expand(AT_ONCE, 1)
    parts = []
    for part in v.split(AT_ONCE):
        seen = torch.cat([part @ rotation, constant[: len(part)]], dim=1)
        parts.append(forms.mixing.mix((seen @ forms.left.mT) * (seen @ forms.right.mT)))
    return torch.cat(parts)


def bent(v: Tensor, z: Tensor, directions: Float[Tensor, "k a d"]) -> Bent:
    """All measures of bending of some latents."""
    began = time.perf_counter()
    one = beyond_one_direction(v, z, directions).share
    middle = time.perf_counter()
    best = np.argsort(-one, kind="stable")[:N_BEST]
    two = beyond_two_directions(v, z[:, best], directions[best]).share
    ended = time.perf_counter()
    return Bent(not_linear(v, z), one, two, ((middle - began) / len(one), (ended - middle) / len(best)))


class Shown(NamedTuple):
    """The strongest tokens of some latents, and the axes they are shown on."""

    rows: list[Int64[Array, " m"]]
    axes: list[Float[Array, "d a"]]


def strongest(z: Float[Tensor, "n k"]) -> list[Int64[Array, " m"]]:
    """Of each latent, by distance from its median."""
    away = (z - z.median(0).values).abs()
    return [np.asarray(away[:, latent].topk(STRONGEST).indices.numpy()) for latent in range(z.shape[1])]


def shown(text: Text, v: Array, latents: Shown) -> Array:
    """The four numbers of each latent, as rows."""
    pairs = zip(latents.rows, latents.axes, strict=True)
    return np.array([structure(v[rows] @ axes, text.words[rows], text.next_words[rows]) for rows, axes in pairs])


def gaussian_tokens(v: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """As many Gaussian tokens with the same covariance."""
    normal = torch.randn(v.shape, generator=torch.Generator().manual_seed(0))
    return normal @ torch.linalg.cholesky(v.T.cov() + 1e-9 * torch.eye(v.shape[1])).mT


def structures(
    text: Text, v: Tensor, z: Tensor, axes: Float[Tensor, "k d a"], forms: Forms, topk: tuple[Tensor, Tensor]
) -> dict[str, Array]:
    """The numbers of shape, of the run's latents and of every control."""
    tokens, generator = v.numpy(), np.random.default_rng(0)
    rows, d, k = strongest(z), v.shape[1], z.shape[1]
    own = Shown(rows, [axes[latent, :, :3].numpy() for latent in range(k)])
    linear = linear_predictors(v, z).numpy()
    on_line = [leading_axes(tokens[rows[latent]], linear[:, latent]) for latent in range(k)]
    blobs = [gaussian_like(tokens[chosen] @ frame, generator) for chosen, frame in zip(*own, strict=True)]
    blob_numbers = [structure(blob, text.words[c], text.next_words[c]) for blob, c in zip(blobs, rows, strict=True)]
    drawn = gaussian_tokens(v)
    chosen = strongest(turned_values(forms, drawn, torch.eye(d)))
    silent = Text(text.x, np.arange(len(v)), np.full(len(v), -1))  # Gaussian tokens have no words
    values, writes = topk
    topk_rows = strongest(values)
    topk_axes = [leading_axes(tokens[chosen], write.numpy()) for chosen, write in zip(topk_rows, writes, strict=True)]
    return {
        OWN: shown(text, tokens, own),
        "same tokens, random axes": shown(text, tokens, Shown(rows, [random_axes(d, generator) for _ in range(k)])),
        "same tokens, linear predictor and their 2 leading components": shown(text, tokens, Shown(rows, on_line)),
        "Gaussian points of the same covariance": np.array(blob_numbers),
        "Gaussian tokens, chosen by the same latent": shown(silent, drawn.numpy(), Shown(chosen, own.axes)),
        "TopK latents, direction and 2 leading components of their tokens": shown(
            text, tokens, Shown(topk_rows, topk_axes)
        ),
        "same tokens, principal axes (ceiling)": shown(
            text, tokens, Shown(rows, [leading_axes(tokens[chosen]) for chosen in rows])
        ),
    }


def summary(values: Array) -> str:
    """Median, and the 5th and 95th percentile."""
    low, middle, high = np.nanquantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def exceeding(own: Array, control: Array) -> str:
    """How many lie above the 95th percentile of a control."""
    return f"{int((own > np.nanquantile(control, 0.95)).sum())}" if is_measured(control) else "–"


def beyond_own(own: Array, control: Array) -> str:
    """How many exceed the same latent's control by more than 0.05."""
    return f"{int((own > control + NOTABLE).sum())}" if is_measured(control) and len(own) == len(control) else "–"


def is_measured(values: Array) -> bool:
    """Whether there is a number: Gaussian tokens have no words."""
    return bool(np.nan_to_num(values).any())


def bending_table(measured: dict[str, Bent]) -> list[str]:
    lines = [
        "| latents | number | not linear | beyond one direction | of the dictionary above its 95th percentile | "
        f"beyond two, best {N_BEST} | ms per latent: one, two |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in measured.items():
        above = exceeding(measured[OWN].one, found.one)
        times = ", ".join(f"{seconds * 1e3:.0f}" for seconds in found.seconds)
        numbers = " | ".join(map(summary, (found.not_linear, found.one)))
        lines.append(f"| {name} | {len(found.one)} | {numbers} | {above} | {summary(found.two)} | {times} |")
    return lines


def shape_tables(measured: dict[str, Array]) -> list[str]:
    head = "| | " + " | ".join(name.replace("_", " ") for name in NUMBERS) + " |"
    lines = [head, "|---" * (len(NUMBERS) + 1) + "|"]
    for name, found in measured.items():
        cells = [summary(values) if is_measured(values) else "–" for values in found.T]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for title, count in {
        f"Of {len(measured[OWN])} latents, above the 95th percentile of a control:": exceeding,
        f"Of {len(measured[OWN])} latents, more than {NOTABLE} above their own control:": beyond_own,
    }.items():
        lines += ["", title, "", head, "|---" * (len(NUMBERS) + 1) + "|"]
        for name, found in measured.items():
            if name != OWN:
                cells = [count(mine, other) for mine, other in zip(measured[OWN].T, found.T, strict=True)]
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def correlations(bends: dict[str, Bent], shapes: dict[str, Array]) -> list[str]:
    """How the numbers go together."""
    from scipy.stats import spearmanr

    numbers = {"not linear": bends[OWN].not_linear, "beyond one": bends[OWN].one}
    numbers |= {name.replace("_", " "): values for name, values in zip(NUMBERS, shapes[OWN].T, strict=True)}
    lines = ["| rank correlation | " + " | ".join(numbers) + " |", "|---" * (len(numbers) + 1) + "|"]
    for name, own in numbers.items():
        cells = " | ".join(f"{spearmanr(own, other, nan_policy='omit').statistic:.2f}" for other in numbers.values())
        lines.append(f"| {name} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/demo"), help="folder of a finished run with its cache")
    parser.add_argument("--topk", type=Path, help="a trained TopK dictionary; by default it is trained here")
    parser.add_argument("--out", type=Path, default=RESULTS / "beyond.md")
    parser.add_argument("--numbers", type=Path, help="also keep the numbers of every latent, as .npz")
    options = parser.parse_args()
    (folder,) = (options.run / "autoencoders").iterdir()
    cache, dictionary = options.run / "activations", quadric.load(folder)
    topk = (
        quadric.load(options.topk)
        if options.topk
        else quadric.fit(cache, quadric.TopK(n_latents=dictionary.n_latents), steps=TOPK_STEPS, seed=0)
    )
    text, forms, axes = read(ActivationCache(cache)), dictionary.forms(), decompose(dictionary).axes
    unit = torch.nn.functional.normalize(text.x, dim=1)
    v = unit - dictionary.lens.centre
    d = v.shape[1]
    rotation = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(0))).Q
    some = torch.randperm(topk.n_latents, generator=torch.Generator().manual_seed(0))[:N_CONTROLS]
    alive = before_choice(topk, text.x, some)
    after = encoded(topk, text.x)[:, some]
    reads = topk.forms().reads.detach()[some][:, None]
    leading = axes[:, :, :DIRECTIONS].mT.contiguous()
    z = encoded(dictionary, text.x)
    turned = turned_values(forms, v, rotation)[:, :N_CONTROLS]
    bends = {
        OWN: bent(v, z, leading),
        "TopK, before the choice": bent(v, alive, reads),
        "TopK, before the choice, its direction not told": bent(v, alive, reads[:, :0]),
        "TopK, after the choice": bent(v, after, reads),
        "the same forms in random directions": bent(v, turned, leading[:N_CONTROLS] @ rotation.mT),
    }
    shapes = structures(text, v, z, axes, forms, (alive, topk.forms().writes.detach()[some]))
    write_atomically(options.out, page(bends, shapes, len(v)).encode())
    if options.numbers:
        named = {f"bend {name}": np.stack(found[:2]) for name, found in bends.items()}
        np.savez(options.numbers, **named, **{f"shape {name}": found for name, found in shapes.items()})
    print(options.out.read_text())


def page(bends: dict[str, Bent], shapes: dict[str, Array], n_tokens: int) -> str:
    """The committed tables."""
    lines = [
        "# Latents that bend, and axes that show a shape",
        "",
        f"`python benchmarks/bench_beyond.py`: the demo's dictionary on its own {n_tokens:,} tokens; {N_CONTROLS} "
        f"latents of a TopK dictionary trained on them for {TOPK_STEPS} steps; forms with the same spectra in random "
        "directions. Medians, 5th to 95th percentiles. Beyond one direction: see `quadric/evidence/bending.py`, 20,000 "
        "tokens, each half judged by what was fitted on the other. Not linear: 1 − R² of the best linear predictor.",
        "",
        *bending_table(bends),
        "",
        f"The {STRONGEST} strongest tokens of every latent on three axes, see `benchmarks/structure.py`:",
        "",
        *shape_tables(shapes),
        "",
        "How the numbers of the dictionary's latents go together:",
        "",
        *correlations(bends, shapes),
        "",
        environment(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
