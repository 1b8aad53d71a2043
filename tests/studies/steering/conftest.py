"""A small model with a dictionary and its evidence, made once."""

from typing import Any, NamedTuple

import pytest
import torch

import quadric
from quadric.data.models import LanguageModel, model_in_memory
from tests.data.tiny import tiny_causal, tiny_tokenizer

SENTENCES = [f"{day} is the {n}th day, and {day} comes again in {n} weeks." for n in range(4) for day in
             ("Monday", "Tuesday", "Friday", "Sunday")]  # fmt: skip


class Steerable(NamedTuple):
    model: LanguageModel
    ae: Any
    topk: Any
    evidence: Any
    acts: Any


@pytest.fixture(scope="session")
def steerable() -> Steerable:
    causal, tokenizer = tiny_causal(), tiny_tokenizer()
    acts = quadric.harvest(causal, SENTENCES, layer=2, tokenizer=tokenizer, progress=False)
    training = quadric.Training(steps=20, learning_rate=0.03, learning_rate_decay=0.0)
    settings = {"training": training, "batch_tokens": 256, "progress": False}
    ae = quadric.fit(acts, 16, **settings)
    topk = quadric.fit(acts, quadric.TopK(n_latents=16, n_active=4), **settings)
    evidence = quadric.collect_evidence(ae, acts, points=100, progress=False)
    torch.manual_seed(0)
    return Steerable(model_in_memory(causal, tokenizer), ae, topk, evidence, acts)
