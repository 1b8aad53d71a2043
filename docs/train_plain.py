"""Train a dictionary of quadratic forms on one screen: what `quadric.fit` does, step by step.

`fit` adds files, checkpoints, several processes, other sources of activations and messages. On the same rows both end
at the same losses: to the bit or, with `plain=True`, which is the printed formulas in plain autograd, up to rounding.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

import quadric
from quadric.data.sources import as_activations
from quadric.model import PlainStep
from quadric.model.lens import AffineLens, affine_lens, token_moments
from quadric.train.learner import decay_at
from quadric.train.optimizers import Muon


def batches(x: Tensor, size: int, seed: int) -> Iterator[Tensor]:
    """The rows in random order, again and again."""
    for batch in as_activations(x).stream(batch_tokens=size, seed=seed, repeat=True):
        yield batch.activations["rows"]


def estimated_lens(x: Tensor, size: int, seed: int) -> AffineLens:
    """Centre and constant, from the first 16,384 tokens."""
    rows = batches(x, size, seed)
    moments = token_moments(next(rows))
    while moments.n_tokens < 16_384:
        moments += token_moments(next(rows))
    return affine_lens(moments)


def train(
    x: Tensor, settings: quadric.Composite, steps: int, *, size: int = 2048, seed: int = 0, plain: bool = False
) -> tuple[quadric.Dictionary, dict[str, float]]:
    """A trained dictionary, and the value of every term of its loss in the last step."""
    dictionary = settings.build(x.shape[1], lens=estimated_lens(x, size, seed), seed=seed)
    step_of = PlainStep if plain else type(dictionary).step
    loss, report, rate = settings.default_loss(), {}, settings.learning_rate(x.shape[1])
    optimizers = [
        torch.optim.AdamW(group.parameters, lr=1e-3, weight_decay=0.0)
        if group.name == "vectors"
        else Muon(group.parameters, lr=rate, momentum=0.95)
        for group in dictionary.parameter_groups()
    ]
    falling = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda index: decay_at(index, steps, 0.5)) for each in optimizers
    ]
    for index, batch in zip(range(steps), batches(x, size, seed), strict=False):
        # Lowers the density of C. While that is above 1 %, C stays the same parameter, and optimizers need not follow.
        dictionary.before_step(index, steps)
        step = step_of(dictionary, batch, loss=loss, index=index, steps=steps)
        values = {term.name: term(step) for term in loss}
        total = sum(term.weight_at(index, steps) * values[term.name] for term in loss)
        total.backward()
        for optimizer, schedule in zip(optimizers, falling, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        dictionary.after_step(step)
        report = {name: value.item() for name, value in values.items()}
    return dictionary.eval(), report


if __name__ == "__main__":
    rows = torch.randn(20_000, 32) @ torch.randn(32, 32)  # your activations, one row per token
    _, last = train(rows, quadric.Composite(n_latents=64), steps=100)
    print("  ".join(f"{name} {value:.4f}" for name, value in last.items()))
