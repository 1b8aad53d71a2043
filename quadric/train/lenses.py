"""Estimate the lens of every learner that has none yet, from the first tokens of the stream."""

import torch
import torch.distributed as dist

from quadric.model.lens import AffineLens, TokenMoments, affine_lens, token_moments
from quadric.train.distributed import current_processes
from quadric.train.learner import Learner
from quadric.train.loop import Batch, Stream

LENS_TOKENS = 16_384
"""Tokens that a lens is estimated from: whole batches, until there are at least so many."""


def estimate_lenses(learners: list[Learner], stream: Stream) -> None:
    """Read the first batches of the stream, set every unknown lens, and return to where the stream was.

    All learners share one reading. Processes add up what they read, so that the lens is that of the whole batches.
    """
    waiting = [each for each in learners if _needs_lens(each)]
    if not waiting:
        return
    begin = stream.state_dict()
    moments = _first_moments(stream, {each.hook_point for each in waiting})
    stream.load_state_dict(begin)
    for each in waiting:
        device = next(each.dictionary.parameters()).device
        each.dictionary.lens = affine_lens(moments[each.hook_point]).to(device)


def _needs_lens(learner: Learner) -> bool:
    lens = learner.dictionary.lens
    return isinstance(lens, AffineLens) and not lens.is_known


def _first_moments(stream: Stream, hook_points: set[str]) -> dict[str, TokenMoments]:
    found: dict[str, TokenMoments] = {}
    for batch in stream:
        own = _moments(batch, hook_points)
        found = {name: found[name] + each if found else each for name, each in own.items()}
        if all(each.n_tokens >= LENS_TOKENS for each in found.values()):
            break
    if not found:
        raise ValueError("there is no token to estimate the lens from; give some text or rows")
    return found


def _moments(batch: Batch, hook_points: set[str]) -> dict[str, TokenMoments]:
    return {name: _over_processes(token_moments(batch.activations[name])) for name in sorted(hook_points)}


def _over_processes(moments: TokenMoments) -> TokenMoments:
    """The sums of all processes of the job."""
    if current_processes().world_size == 1:
        return moments
    flat = torch.cat([moments.total.new_tensor([moments.n_tokens]), moments.total, moments.outer.flatten()])
    dist.all_reduce(flat)
    d = len(moments.total)
    return TokenMoments(int(flat[0]), flat[1 : 1 + d], flat[1 + d :].view(d, d))
