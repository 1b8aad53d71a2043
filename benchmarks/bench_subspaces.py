"""Target: 12 planted circles, each whole in one latent of 16 subspaces: overlap at least 0.85 in the mean over seeds.

python benchmarks/bench_subspaces.py [--quick]
"""

import argparse
from itertools import product
from statistics import mean

import torch
from jaxtyping import Float
from measure import write_table
from torch import Tensor

import quadric
from quadric.geometry.dictionary import as_forms

D_MODEL, N_CIRCLES, PRESENT, N_TOKENS = 40, 12, 0.2, 20_000
CENTRES = {"in its plane": (0.7, 0.0), "out of its plane": (0.0, 0.7)}
"""Where a circle of radius 1 has its centre: along its own first axis, and along a third one."""
STEPS, BATCH_TOKENS, WHOLE = 400, 512, 0.9
RATES = (0.03, 0.06, 0.2, 0.3)


def planted(centre: tuple[float, float], seed: int) -> tuple[Float[Tensor, "n d"], Float[Tensor, "c d 2"]]:
    """Tokens with some of the circles each, and the planes of the circles."""
    generator = torch.Generator().manual_seed(seed)
    frames = torch.linalg.qr(torch.randn(N_CIRCLES, D_MODEL, 3, generator=generator)).Q
    angles = 2 * torch.pi * torch.rand(N_TOKENS, N_CIRCLES, generator=generator)
    present = torch.rand(N_TOKENS, N_CIRCLES, generator=generator) < PRESENT
    points = torch.stack([angles.cos() + centre[0], angles.sin(), torch.full_like(angles, centre[1])], dim=-1)
    noise = 0.05 * torch.randn(N_TOKENS, D_MODEL, generator=generator)
    return torch.einsum("ncp,cdp->nd", points * present[..., None], frames) + noise, frames[..., :2]


def overlaps(dictionary: quadric.Dictionary, planes: Float[Tensor, "c d 2"], rank: int) -> Float[Tensor, " c"]:
    """Share of each plane that the leading axes of the best latent hold; a direction holds at most one half."""
    forms = as_forms(dictionary)
    matrices = torch.stack([forms.form(i)[:D_MODEL, :D_MODEL] for i in range(forms.n_latents)]).detach()
    values, vectors = torch.linalg.eigh(matrices.double())
    leading = values.abs().topk(rank, dim=1).indices[:, None].expand(-1, D_MODEL, -1)
    bases = vectors.gather(2, leading)
    return (torch.einsum("cdp,kdq->ckpq", planes.double(), bases).square().sum((-1, -2)) / 2).amax(1)


def kinds(rank: int) -> dict[str, tuple[quadric.Settings, float | None, int]]:
    """Settings, learning rate and axes of a latent that are looked at."""
    found: dict[str, tuple[quadric.Settings, float | None, int]] = {
        "subspaces, default rate": (quadric.Subspaces(n_latents=16, rank=rank, n_active=3), None, rank)
    }
    for rate in RATES:
        settings = quadric.Subspaces(n_latents=16, rank=rank, n_active=3)
        found[f"subspaces, rate {rate:g}"] = settings, rate, rank
    found["24 subspaces, default rate"] = quadric.Subspaces(n_latents=24, rank=rank, n_active=3), None, rank
    found["composite, default"] = quadric.Composite(n_latents=32), None, rank
    found["TopK"] = quadric.TopK(n_latents=16 * rank, n_active=3 * rank), None, 1
    found["BatchTopK"] = quadric.BatchTopK(n_latents=16 * rank, n_active=3 * rank), None, 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps and one seed, for trying the script")
    quick = parser.parse_args().quick
    steps, seeds = (5, (0,)) if quick else (STEPS, tuple(range(6)))
    rows = []
    for (place, centre), rank in product(CENTRES.items(), (2, 3)):
        for name, (settings, rate, axes) in kinds(rank).items():
            found, errors = [], []
            for seed in seeds:
                x, planes = planted(centre, seed)
                ae = quadric.fit(
                    x, settings, steps=steps, batch_tokens=BATCH_TOKENS, seed=seed, progress=False,
                    training=quadric.Training(learning_rate=rate),
                )  # fmt: skip
                found.append(overlaps(ae, planes, axes))
                errors.append(quadric.evaluate(ae, x[:4000], progress=False).error)
            whole = [int((each > WHOLE).sum()) for each in found]
            shares = [each.mean().item() for each in found]
            rows.append([
                place, str(rank), name, f"{mean(shares):.2f} ({min(shares):.2f}–{max(shares):.2f})",
                ", ".join(map(str, whole)), f"{mean(errors):.3f}",
            ])  # fmt: skip
            print(rows[-1], flush=True)
    write_table(
        f"subspaces{'_quick' if quick else ''}",
        "Planted circles in subspaces",
        ["centre of the circles", "rank", "dictionary", "overlap, mean (range over seeds)", "whole, by seed", "error"],
        rows,
        f"{N_CIRCLES} circles in d = {D_MODEL}, each present in {PRESENT:.0%} of {N_TOKENS:,} tokens; {steps} steps of "
        f"{BATCH_TOKENS} tokens; {len(seeds)} seeds. Overlap: share of a circle's plane in the leading axes of the "
        f"best latent, as many as the rank; one axis for directions, which hold at most 0.5. Whole: over {WHOLE}. "
        "Error: of the product space. `python benchmarks/bench_subspaces.py`",
    )


if __name__ == "__main__":
    main()
