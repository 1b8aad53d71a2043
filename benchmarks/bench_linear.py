"""What the pages of a linear dictionary say beside those of a bilinear one: curvature of the gate, and counterparts.

A TopK dictionary is trained on the activations of the demo's layer (the cache of bench_lens.py) and compared with the
dictionary of `quadric demo`.

    python benchmarks/bench_linear.py
    python benchmarks/bench_linear.py --run runs/demo
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch
from measure import write_table
from torch import Tensor

import quadric
from quadric.data.sources import as_activations
from quadric.model import Autoencoder
from quadric.viewer.comparisons import SMALLEST_OVERLAP, compare_dictionaries

CACHES = Path(tempfile.gettempdir()) / "quadric-benchmarks"
N_LATENTS, N_ACTIVE, STEPS, BATCH, TOKENS = 512, 32, 330, 4096, 12_000


def held_out() -> Tensor:
    """Tokens that neither dictionary was trained on."""
    stream = as_activations(str(CACHES / "smollm2-15-held_out")).stream(batch_tokens=BATCH, seed=None)
    batches = itertools.islice(stream, -(-TOKENS // BATCH))
    return torch.cat([batch.activations["resid_pre.15"] for batch in batches])[:TOKENS].float()


def trained() -> Autoencoder:
    """TopK, on as many tokens as the demo's dictionary."""
    settings = {"prior": "topk", "n_active": N_ACTIVE, "steps": STEPS, "batch_tokens": BATCH, "progress": False}
    return quadric.fit(str(CACHES / "smollm2-15-train"), N_LATENTS, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="runs/demo", help="a run of quadric demo")
    bilinear, topk, x = quadric.load(parser.parse_args().run), trained(), held_out()
    seen = [quadric.collect_evidence(each, x, points=50, progress=False) for each in (topk, bilinear)]
    compared = compare_dictionaries("demo", bilinear, "topk", topk)
    by_form = quadric.geometry.hungarian_similarity(bilinear, topk, sign_free=True).cosines.abs()
    n_by_form = int((by_form >= SMALLEST_OVERLAP).sum())
    shares = [f"{100 * np.median(each.statistics.curvature):.0f} %" for each in seen]
    rows = [
        ["share of Var z that no linear function explains, median TopK latent", shares[0]],
        ["the same of the bilinear dictionary", shares[1]],
        ["error of TopK", f"{quadric.evaluate(topk, x, progress=False).error:.3f}"],
        ["counterparts by the overlap of the viewer", str(int((compared.overlaps >= SMALLEST_OVERLAP).sum()))],
        ["what chance reaches", f"{compared.entry.chance:.2f}"],
        ["counterparts by the cosine with ddᵀ on the token, up to its sign", str(n_by_form)],
    ]
    notes = (
        f"`python benchmarks/bench_linear.py`. SmolLM2, layer 15: TopK with {N_LATENTS} latents, {N_ACTIVE} active, "
        f"{STEPS} steps of {BATCH:,} tokens, beside the demo's {bilinear.n_latents}; shares on {TOKENS:,} held-out "
        f"tokens. A counterpart has an overlap of at least {SMALLEST_OVERLAP}."
    )
    write_table("linear", "A linear dictionary beside a bilinear one", ["", ""], rows, notes)


if __name__ == "__main__":
    main()
