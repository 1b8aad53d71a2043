"""Dictionaries that SAELens trains on real activations at their own length, read by Quadric.

In an environment that has sae-lens (see docs/interop.md). Each is trained by SAELens's own trainer for 150 steps, which
is little: the table says whether Quadric computes what SAELens computes, not which kind is better. "Read as a unit
token" is what the same weights give if the activations are scaled to unit norm, as for a dictionary of Quadric.

    python benchmarks/bench_reading.py
    python benchmarks/bench_reading.py --only topk
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sae_lens
import torch
from measure import RESULTS, environment
from sae_lens.config import SAETrainerConfig
from sae_lens.training.sae_trainer import SAETrainer
from torch import Tensor

import quadric
from quadric.data.sources import as_activations
from quadric.model.objective import product_space_error

CACHES = Path(tempfile.gettempdir()) / "quadric-benchmarks"
"""Made by bench_lens.py: layer 15 of SmolLM2."""
STEPS, BATCH, N_LATENTS, ACTIVE, HELD_OUT = 150, 512, 1024, 32, 4096
SCALED = {"normalize_activations": "expected_average_only_in"}
DICTIONARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "topk": ("TopK", {"k": ACTIVE}),
    "topk, average length √d": ("TopK", {"k": ACTIVE, **SCALED}),
    "batchtopk, average length √d": ("BatchTopK", {"k": ACTIVE, **SCALED}),
    "standard, layer norm": ("Standard", {"l1_coefficient": 2.0, "normalize_activations": "layer_norm"}),
}
HEADINGS = ("dictionary", "read as", "error", "read as a unit token", "latents", "reconstructions", "active")


def activations(split: str, n: int) -> Tensor:
    """The first rows of a cache, at their own length."""
    source = as_activations(str(CACHES / f"smollm2-15-{split}"))
    batches = (batch.activations["resid_pre.15"] for batch in source.stream(batch_tokens=4096, seed=None))
    return torch.cat(list(itertools.islice(batches, -(-n // 4096))))[:n].float()


def trained(name: str, x: Tensor, folder: Path) -> Any:
    """Trained and saved by SAELens, and loaded again by it."""
    kind, settings = DICTIONARIES[name]
    config = getattr(sae_lens, f"{kind}TrainingSAEConfig")(d_in=x.shape[1], d_sae=N_LATENTS, **settings)
    sae = getattr(sae_lens, f"{kind}TrainingSAE")(config)
    normalization = settings.get("normalize_activations", "none")
    if normalization != "layer_norm":
        scale = x.shape[1] ** 0.5 / x.norm(dim=1).mean() if normalization != "none" else 1.0
        sae.b_dec.data.copy_(x.mean(0) * scale)
    trainer = SAETrainerConfig(
        total_training_samples=STEPS * BATCH,
        train_batch_size_samples=BATCH,
        lr=1e-3,
        lr_end=1e-4,
        n_batches_for_norm_estimate=20,
    )
    SAETrainer(cfg=trainer, sae=sae, data_provider=batches(x)).fit()
    sae.save_inference_model(folder)
    return sae_lens.SAE.load_from_disk(folder)


def batches(x: Tensor) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(0)
    while True:
        yield x[torch.randint(len(x), (BATCH,), generator=generator)]


@torch.no_grad()
def row(name: str, sae: Any, folder: Path, x: Tensor) -> dict[str, Any]:
    """How the dictionary that Quadric reads compares with the one that SAELens reads."""
    ae, latents, rebuilt = quadric.load(folder), sae.encode(x), sae(x)
    as_unit = quadric.linear_dictionary(
        encoder=ae.encoder,
        decoder=ae.decoder,
        encoder_bias=ae.encoder_bias,
        decoder_bias=ae.decoder_bias,
        n_active=ae.n_active,
        threshold=getattr(ae, "thresholds", None),
        input="unit",
    )
    values = (
        name,
        f"{ae.kind}, {ae.input}",
        f"{quadric.evaluate(ae, x, progress=False).error:.4f}",
        f"{as_unit.error(x).mean():,.3g}",
        _difference(ae.encode(ae.prepare(x)), latents),
        _difference(ae.rebuild(x), rebuilt),
        f"{(latents > 0).sum(1).float().mean():.0f}",
    )
    return dict(zip(HEADINGS, values, strict=True))


def _difference(found: Tensor, expected: Tensor) -> str:
    return f"{(found - expected).abs().max() / expected.abs().max():.0e}"


def table(rows: list[dict[str, Any]], mean_error: float) -> str:
    lines = [" | ".join(HEADINGS), "|".join(["---"] * len(HEADINGS))]
    lines += [" | ".join(str(each[heading]) for heading in HEADINGS) for each in rows]
    return "\n".join(
        [
            "# Dictionaries of SAELens, read by Quadric",
            "",
            f"`python benchmarks/bench_reading.py`, sae-lens {sae_lens.__version__}; {environment()}",
            "",
            *(f"| {line} |" for line in lines),
            "",
            f"{STEPS} steps of {BATCH} tokens of SmolLM2, layer 15, at their own length; {N_LATENTS:,} latents; "
            f"measured on {HELD_OUT:,} held-out tokens. Latents, reconstructions: largest difference from SAELens's, "
            f"relative to the largest value. The mean token alone has error {mean_error:.3f}.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=DICTIONARIES, help="train this one, and keep the rows of the others")
    only = parser.parse_args().only
    path, x, held_out = RESULTS / "reading.json", activations("train", 60_000), activations("held_out", HELD_OUT)
    rows = {each["dictionary"]: each for each in json.loads(path.read_text())} if path.is_file() else {}
    for name in [only] if only else DICTIONARIES:
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(0)
            rows[name] = row(name, trained(name, x, Path(folder)), Path(folder), held_out)
            path.write_text(json.dumps(list(rows.values()), indent=1, ensure_ascii=False) + "\n")
    mean_error = float(product_space_error(held_out, held_out.mean(0).expand_as(held_out)).mean())
    (RESULTS / "reading.md").write_text(table(list(rows.values()), mean_error))


if __name__ == "__main__":
    main()
