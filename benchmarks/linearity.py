"""How much of a latent a linear function of the token says."""

import torch
from jaxtyping import Float
from torch import Tensor


def linear_share(unit: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """R² of every latent by least squares on the tokens and a constant: fitted on one half, measured on the other."""
    inputs = torch.cat([unit, torch.ones(len(unit), 1)], dim=1).double()
    half = len(unit) // 2
    slopes = torch.linalg.lstsq(inputs[:half], latents[:half].double()).solution
    rest = latents[half:].double()
    missed = (rest - inputs[half:] @ slopes).square().sum(0)
    return (1 - missed / (rest - rest.mean(0)).square().sum(0)).clamp(min=0)
