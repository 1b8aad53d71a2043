"""A run with evidence on a tiny random language model: complete, and made in a second."""

from pathlib import Path

import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.data import ActivationConfig, describe
from quadric.data.corpus import CorpusConfig
from quadric.evidence import EvidenceSettings, collect, open_live
from quadric.explanations import Explainer
from quadric.explanations.explaining import language_model_of
from quadric.model import load_pretrained
from quadric.model.lens import affine_lens, token_moments
from quadric.model.objective import unit_tokens
from tests.data.tiny import D_MODEL, save_tiny

NAME = "small"
N_LATENTS = 24
SETTINGS = EvidenceSettings(n_points=60, n_axes=6, n_calibration_tokens=512)


def make_small_run(folder: Path, *, packing: str = "packed") -> Path:
    """A run folder with one autoencoder and its evidence; the model is beside it."""
    texts = folder / "texts"
    texts.mkdir(parents=True)
    for number in range(16):
        (texts / f"{number:02d}.txt").write_text(f"Document {number}: " + f"word {number} and more. " * (3 + number))
    model = save_tiny(folder / "tiny")
    corpus = CorpusConfig(source=str(texts), block_length=32, held_out_fraction=0.0, packing=packing)
    config = ActivationConfig(model=str(model), hook_points="layers.2", corpus=corpus)
    provenance = describe(config, device="cpu").for_hook_point("resid_pre.2")
    stream = open_live(provenance, model=str(model), corpus=str(texts), batch_tokens=512, device="cpu")
    tokens = next(iter(stream)).activations["resid_pre.2"]
    lens = affine_lens(token_moments(unit_tokens(tokens)))
    ae = BilinearAutoencoder(
        d_model=D_MODEL, n_latents=N_LATENTS, prior="composite", mixing_density=0.06, lens=lens, provenance=provenance
    )
    run = folder / "run"
    ae.save_pretrained(run / "autoencoders" / NAME)
    stream = open_live(provenance, model=str(model), corpus=str(texts), batch_tokens=512, device="cpu")
    collect(ae, stream, run / "evidence" / NAME, n_tokens=2000, settings=SETTINGS)
    return run


def make_linear_explainer(run: Path) -> Explainer:
    """An explainer by a TopK dictionary of the same hook point, with evidence of its own."""
    provenance = load_pretrained(run / "autoencoders" / NAME).provenance
    topk = TopKAutoencoder(d_model=D_MODEL, n_latents=N_LATENTS, n_active=4, provenance=provenance).eval()
    with torch.no_grad():
        topk.encoder += 0.1 * torch.randn(topk.encoder.shape, generator=torch.Generator().manual_seed(1))
    model, texts = str(run.parent / "tiny"), str(run.parent / "texts")
    stream = open_live(provenance, model=model, corpus=texts, batch_tokens=512, device="cpu")
    evidence = collect(topk, stream, run.parent / "linear-evidence", n_tokens=2000, settings=SETTINGS)
    return Explainer(topk, language_model_of(topk, model, None, "cpu"), evidence)
