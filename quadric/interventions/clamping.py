"""A latent of a linear dictionary held at a value: the counterpart of `project` for directions.

Clamping adds what is missing along the latent's row d of the decoder and nothing else,

    x' = x + s·(to − z)·d,

with z the latent's own activation and s the length in x of a step of length 1 in what the encoder reads. What the
dictionary does not reconstruct stays as it is. Encoding x' again need not give `to`: d moves other latents too, and the
encoder's row is not d.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from quadric.model.linear import LinearAutoencoder, token_scale


def clamp(
    autoencoder: LinearAutoencoder, latent: int, to: float, *, in_norms: bool = False
) -> Callable[[Tensor], Tensor]:
    """Hold one latent of a linear dictionary at a value; 0 takes it out.

    Args:
        autoencoder: A linear dictionary.
        latent: Index of the latent.
        to: The activation, at the scale of `autoencoder.encode(autoencoder.prepare(x))`.
        in_norms: `to` is in units of the token's norm instead, whatever the encoder reads: s·to is then to·‖x‖. A
            dictionary of unit tokens makes no difference between the two.

    Returns:
        A function from activations (n, d) to changed ones, for `quadric.interventions.in_model.edit_activations`.

    Example:
        >>> topk = quadric.TopKAutoencoder(d_model=8, n_latents=16, n_active=4)
        >>> clamp(topk, 3, to=0.5)(torch.randn(5, 8)).shape
        torch.Size([5, 8])
    """
    if not 0 <= latent < autoencoder.n_latents:
        raise IndexError(f"latent {latent} is outside 0 … {autoencoder.n_latents - 1}")
    direction = autoencoder.decoder.detach()[latent].double()

    @torch.no_grad()
    def change(x: Tensor) -> Tensor:
        read = autoencoder.prepare(x.to(direction.device))
        norms = x.to(direction.device).double().norm(dim=-1)
        own_scale = token_scale(autoencoder.input, read) / autoencoder.lengths_of(read)
        scale = norms * own_scale[:, 0].double()
        wanted = to * (norms if in_norms else scale)
        moved: Tensor = (wanted - scale * autoencoder.encode(read)[:, latent].double())[:, None] * direction
        return x + moved.to(x)

    return change
