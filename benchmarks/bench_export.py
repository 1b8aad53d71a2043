"""Claim: a site of 8,192 latents × 2,000 points takes at most 360 MB, 3 minutes and 4 GiB.

The evidence is synthetic and has the shape of real evidence: Zipf tokens, z a signed square of Gaussian coordinates.
`python benchmarks/bench_export.py --latents 512` runs a smaller size and writes no table.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from dictionaries import gaussian_composite
from measure import peak_memory, write_table

from quadric.evidence import Contexts, Evidence, EvidenceSettings, FiringStatistics, Labels, Points, TextRead
from quadric.evidence.firing import PROBABILITIES
from quadric.model import BilinearAutoencoder, Provenance
from quadric.model.storage import weights_sha256
from quadric.viewer.export import SiteInput, site_parts
from quadric.viewer.writer import write_site

D_MODEL, N_LATENTS, DENSITY = 576, 8192, 0.001
N_TOKENS, VOCABULARY, BLOCK = 200_000, 20_000, 256
SETTINGS = EvidenceSettings()


def dictionary(n_latents: int) -> BilinearAutoencoder:
    """A composite dictionary with the paper's number of atoms per latent for any number of latents."""
    density = DENSITY * N_LATENTS / n_latents
    return gaussian_composite(d_model=D_MODEL, n_latents=n_latents, n_hidden=2 * n_latents, density=density, seed=0)


def synthetic_text(generator: np.random.Generator) -> TextRead:
    """Zipf tokens in blocks of 256."""
    shares = 1 / np.arange(1, VOCABULARY + 1)
    tokens = generator.choice(VOCABULARY, size=N_TOKENS, p=shares / shares.sum()).astype(np.int32)
    return TextRead(
        token_ids=tokens,
        sequence_starts=np.arange(0, N_TOKENS, BLOCK, dtype=np.int64),
        documents=(np.arange(N_TOKENS) // 150).astype(np.int32),
        vocabulary=[f" t{token}".encode() for token in range(VOCABULARY)],
    )


def synthetic_points(generator: np.random.Generator, n_latents: int) -> Points:
    """Coordinates that shrink with the axis index, and z as their signed square, sorted by |z|."""
    shape = (n_latents, SETTINGS.n_points)
    scales = np.geomspace(0.3, 0.03, SETTINGS.n_axes).astype(np.float32)
    points = Points(
        places=np.empty(shape, dtype=np.int64),
        values=np.empty(shape, dtype=np.float32),
        coordinates=np.empty((*shape, SETTINGS.n_axes), dtype=np.float32),
        control=generator.standard_normal((*shape, 3), dtype=np.float32) / np.float32(D_MODEL**0.5),
    )
    signs = np.where(np.arange(SETTINGS.n_axes) % 2, -1, 1)
    for latent in range(n_latents):
        coordinates = generator.standard_normal((shape[1], SETTINGS.n_axes), dtype=np.float32) * scales
        values = (np.square(coordinates) * signs).sum(1)
        order = np.argsort(-np.abs(values))
        points.places[latent] = generator.choice(N_TOKENS, shape[1], replace=False)
        points.values[latent], points.coordinates[latent] = values[order], coordinates[order]
    return points


def strongest(points: Points) -> Contexts:
    """The strongest points of each sign, used as contexts."""
    count = SETTINGS.n_contexts
    chosen = np.stack([np.argsort(-sign * points.values, axis=1)[:, :count] for sign in (1, -1)], axis=1)
    rows = np.arange(len(chosen))[:, None, None]
    return Contexts(
        places=points.places[rows, chosen],
        values=points.values[rows, chosen],
        coordinates=points.coordinates[rows, chosen],
        control=points.control[rows, chosen],
    )


def synthetic_evidence(n_latents: int) -> Evidence:
    """Synthetic evidence with the shape of real evidence."""
    generator = np.random.default_rng(0)
    points = synthetic_points(generator, n_latents)
    share = generator.random(n_latents).astype(np.float32)
    lifted = (n_latents, 2, SETTINGS.n_lift_tokens)
    statistics = FiringStatistics(
        density=share,
        quantiles=np.quantile(points.values, PROBABILITIES, axis=1).T.astype(np.float32),
        probabilities=PROBABILITIES,
        positive_share=share,
        firing_share=share,
        mean_square=np.square(points.values).mean(1),
        lift_tokens=generator.integers(0, VOCABULARY, lifted).astype(np.int32),
        lifts=generator.random(lifted).astype(np.float32),
    )
    words = [[f"t{latent % 97}", f"t{latent % 89}"] for latent in range(n_latents)]
    return Evidence(
        settings=SETTINGS,
        n_tokens=N_TOKENS,
        provenance=Provenance(corpus="synthetic"),
        weights_sha256=weights_sha256(dictionary(n_latents)),
        corpus_licence=None,
        text=synthetic_text(generator),
        points=points,
        contexts=strongest(points),
        statistics=statistics,
        labels=Labels(texts=[" · ".join(each) for each in words], positive=words, negative=words, method="synthetic"),
    )


def export(folder: Path, n_latents: int) -> Callable[[], None]:
    """Prepare the export from evidence on disk to a site; it writes the times of its two parts to times.json."""
    autoencoder, evidence = dictionary(n_latents), Evidence.load(folder / "evidence")
    (folder / "static").mkdir()
    (folder / "static/index.html").write_text("<!doctype html>")

    def run() -> None:
        start = time.perf_counter()
        site_input = SiteInput(name="composite", autoencoder=autoencoder, evidence=evidence, source="synthetic")
        texts, dictionaries = site_parts([site_input])
        middle = time.perf_counter()
        write_site(folder / "site", title="benchmark", texts=texts, dictionaries=dictionaries, static=folder / "static")
        times = {"geometry": middle - start, "pages": time.perf_counter() - middle}
        (folder / "times.json").write_text(json.dumps(times))

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latents", type=int, default=N_LATENTS)
    n_latents = parser.parse_args().latents
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        synthetic_evidence(n_latents).save(folder / "evidence")
        peak = peak_memory(export, folder, n_latents)
        times = json.loads((folder / "times.json").read_text())
        files = [path for path in (folder / "site/data").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        pages = [path.stat().st_size for path in files if path.parent.name == "latents"]
    rows = [
        ["size", f"{size / 1e6:.0f} MB", "360 MB"],
        ["files", f"{len(files):,}", "20,000"],
        ["mean file size per latent", f"{np.mean(pages) / 1e3:.1f} kB", ""],
        ["time", f"{sum(times.values()):.0f} s", "180 s"],
        ["… spectra, neighbours and map", f"{times['geometry']:.0f} s", ""],
        ["… pages", f"{times['pages']:.0f} s", ""],
        ["peak memory above the loaded dictionary", f"{peak / 2**30:.2f} GiB", "4 GiB"],
    ]
    if n_latents != N_LATENTS:
        print("\n".join("  ".join(row) for row in rows))
        return
    write_table(
        "export",
        "A site of 8,192 latents",
        ["quantity", "measured", "target"],
        rows,
        f"Synthetic evidence: d={D_MODEL}, {SETTINGS.n_points:,} points per latent on {SETTINGS.n_axes} axes, "
        f"{N_TOKENS:,} tokens from a vocabulary of {VOCABULARY:,}. One run in a fresh process; evidence is read from "
        "disk; the viewer's own files are not counted. `python benchmarks/bench_export.py`",
    )


if __name__ == "__main__":
    main()
