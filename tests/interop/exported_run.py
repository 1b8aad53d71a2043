"""A dictionary with harvested activations and evidence, for exports that read activations."""

from typing import NamedTuple

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import quadric
from quadric import BilinearAutoencoder, Evidence
from quadric.data.sources import ActivationsInMemory
from quadric.evidence import EvidenceSettings
from quadric.evidence.collecting import collect_in_memory
from quadric.evidence.text import text_of
from quadric.interop.passes import Reading
from quadric.model.lens import affine_lens, token_moments
from tests.data.tiny import D_MODEL, SIZES, tiny_tokenizer

HOOK_POINT = "resid_pre.2"


class Observed(NamedTuple):
    """A dictionary, its activations and what they say about it."""

    autoencoder: BilinearAutoencoder
    activations: ActivationsInMemory
    evidence: Evidence

    def reading(self) -> Reading:
        stream = self.activations.stream(batch_tokens=300, seed=None)
        text = text_of(self.activations, stream, len(self.activations))
        return Reading(stream=stream, text=text, n_tokens=len(self.activations))

    def away(self) -> np.ndarray:
        """sign·z − rest of every row, by the plain formula."""
        unit = self.autoencoder.prepare(self.activations.vectors)
        known = self.evidence.calibration
        return (self.autoencoder.encode(unit).detach().numpy() * known.signs - known.rest).astype(np.float32)


def observe() -> Observed:
    """Twenty-four texts through a tiny random language model."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    texts = [
        f"{number}. {day} comes before the day after {day}." for number in range(8) for day in ("Mon", "Fri", "Sun")
    ]
    activations = quadric.harvest(model, texts, layer=2, tokenizer=tiny_tokenizer())
    lens = affine_lens(token_moments(activations.vectors))
    provenance = activations.provenance.for_hook_point(HOOK_POINT)
    autoencoder = BilinearAutoencoder(
        d_model=D_MODEL, n_latents=12, prior="composite", mixing_density=0.1, lens=lens, provenance=provenance
    )
    stream = activations.stream(batch_tokens=512, seed=None)
    settings = EvidenceSettings(n_points=40, n_axes=4, n_calibration_tokens=256)
    text = text_of(activations, stream, len(activations))
    evidence = collect_in_memory(autoencoder, stream, text, n_tokens=len(activations), settings=settings)
    return Observed(autoencoder.eval(), activations, evidence)
