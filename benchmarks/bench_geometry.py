"""Claims: spectra of 8,192 composite latents at least 20 times as fast as d×d eigh; similarity in less than 6 GiB."""

import time
from collections.abc import Callable

import torch
from dictionaries import gaussian_composite
from measure import peak_memory, write_table

from quadric.geometry import hungarian_similarity, neighbours, spectra, statistics
from quadric.model import BilinearAutoencoder

D_MODEL, N_LATENTS, N_HIDDEN, DENSITY = 1024, 8192, 16384, 0.001
DENSE_SAMPLE = 24
ROUNDS = 3


def composite(seed: int) -> BilinearAutoencoder:
    """A random composite dictionary of the paper's size."""
    return gaussian_composite(d_model=D_MODEL, n_latents=N_LATENTS, n_hidden=N_HIDDEN, density=DENSITY, seed=seed)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def all_spectra(ae: BilinearAutoencoder) -> None:
    """Eigenvalues and eigenvectors of every latent."""
    for _ in spectra(ae):
        pass


def dense_spectra(ae: BilinearAutoencoder, dtype: torch.dtype) -> None:
    """One d×d eigh per latent, for a sample of latents."""
    for latent in range(0, N_LATENTS, N_LATENTS // DENSE_SAMPLE):
        torch.linalg.eigh(ae.form(latent).to(dtype))


def similarity() -> Callable[[], object]:
    """Prepare the comparison of two dictionaries of the paper's size."""
    a, b = composite(0), composite(1)
    return lambda: hungarian_similarity(a, b)


def main() -> None:
    ae = composite(0)
    scale = N_LATENTS / len(range(0, N_LATENTS, N_LATENTS // DENSE_SAMPLE))
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):  # interleaved, so that a slow phase of the machine affects all of them
        for name, work, factor in (
            ("small span: eigenvalues and eigenvectors", lambda: all_spectra(ae), 1.0),
            ("small span: the table of statistics", lambda: statistics(ae), 1.0),
            ("d×d eigh, float64", lambda: dense_spectra(ae, torch.float64), scale),
            ("d×d eigh, float32", lambda: dense_spectra(ae, torch.float32), scale),
        ):
            times.setdefault(name, []).append(factor * seconds(work))
    best = {name: min(values) for name, values in times.items()}
    reference = best["small span: eigenvalues and eigenvectors"]
    rows = [
        [name, f"{best[name]:,.1f} s", f"{max(values):,.1f} s", f"{best[name] / reference:.1f}×"]
        for name, values in times.items()
    ]
    rows.append(["neighbours of all latents", f"{seconds(lambda: neighbours(ae)):,.1f} s", "", ""])
    # Sim_H does everything that Sim_F does, plus the assignment.
    took, peak = seconds(similarity()), peak_memory(similarity)
    rows.append(["Sim_H of two runs", f"{took:,.1f} s", "", f"{peak / 2**30:.2f} GiB above both runs"])
    write_table(
        "geometry",
        "Geometry of 8,192 composite latents",
        ["computation", "best", "worst", "relative to the small span, or memory"],
        rows,
        f"d={D_MODEL}, k={N_LATENTS}, h={N_HIDDEN}, density {DENSITY:.1%}, Gaussian weights; best and worst of "
        f"{ROUNDS} interleaved rounds. The d×d times are extrapolated: {round(N_LATENTS / scale)} latents evenly "
        f"spread over the dictionary, including forming W_i, times {scale:.0f}. Similarity: one run; memory is the "
        "peak of a fresh process above its memory with both runs loaded (0.25 GiB plus torch itself). "
        "`python benchmarks/bench_geometry.py`",
    )


if __name__ == "__main__":
    main()
