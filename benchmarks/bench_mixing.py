"""Claim: at densities up to SPARSE_BELOW, sparse storage of C is several times as fast as dense storage."""

from collections.abc import Callable
from statistics import median

import torch
from measure import alternate, median_and_spread, write_table

from quadric.model import mixing
from quadric.model.mixing import Masked, Sparse, with_density

N_TOKENS, N_LATENTS, N_HIDDEN = 2048, 1024, 2048
DENSITIES = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def step(density: float, sparse: bool) -> Callable[[], object]:
    """Prepare the work that a training step does with C: latents and kernel, forward and backward."""
    threshold = mixing.SPARSE_BELOW
    mixing.SPARSE_BELOW = 2.0 if sparse else 0.0
    weight = torch.randn(N_LATENTS, N_HIDDEN, generator=torch.Generator().manual_seed(0))
    composite = with_density(Masked(weight), density).mixing
    mixing.SPARSE_BELOW = threshold
    assert isinstance(composite, Sparse) == sparse
    atoms = torch.randn(N_TOKENS, N_HIDDEN).requires_grad_()
    n_used = N_HIDDEN if composite.used_atoms is None else len(composite.used_atoms)
    gram = torch.randn(n_used, n_used).requires_grad_()
    # Fixed random gradients: with a sum, the backward pass would receive a broadcast scalar instead of a matrix.
    grad_latents, grad_kernel = torch.randn(N_TOKENS, N_LATENTS), torch.randn(N_LATENTS, N_LATENTS)

    def run() -> None:
        torch.autograd.backward([composite.mix(atoms), composite.kernel(gram)], [grad_latents, grad_kernel])

    return run


def main() -> None:
    rows = []
    for density in DENSITIES:
        seconds = alternate({"dense": step(density, False), "sparse": step(density, True)})
        ratio = median(seconds["sparse"]) / median(seconds["dense"])
        rows.append([f"{density:.1%}", *(median_and_spread(seconds[name]) for name in seconds), f"{ratio:.2f}"])
    write_table(
        "mixing",
        "Mixing and kernel, dense C against sparse C",
        ["density of C", "dense", "sparse", "sparse / dense"],
        rows,
        f"Forward and backward pass of `mix` and `kernel` at n={N_TOKENS}, k={N_LATENTS}, h={N_HIDDEN}; median (range) "
        f"of seven alternating rounds. `SPARSE_BELOW` is {mixing.SPARSE_BELOW}. "
        "`python benchmarks/bench_mixing.py`",
    )


if __name__ == "__main__":
    main()
