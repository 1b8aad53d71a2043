"""Errors of given latents, as evaluation needs them: in the coordinates of the lens, and of uuᵀ."""

from jaxtyping import Float
from torch import Tensor

from quadric.model.bilinear import BilinearAutoencoder
from quadric.model.dictionary import TokenErrors
from quadric.model.fast.blocked import blocked_quadratic_form
from quadric.model.fast.lifted import lifted_reconstruction, unpacked
from quadric.model.fast.step import DEFAULT_BLOCK, FastStep, path_of
from quadric.model.fast.storage import latents_of, sparse_rows_of
from quadric.model.lens import PaperLens
from quadric.model.objective import kernel_error, quadratic_form


def token_errors(
    dictionary: BilinearAutoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> TokenErrors:
    """Error of each unit token's reconstruction from all of its latents.

    ‖Û − uuᵀ‖² = zᵀK'z − 2z·y + 1 with the forms W' = TW̃Tᵀ on u, their kernel K' and y_i = uᵀW'_i u.
    """
    if path_of(dictionary) == "lifted":
        return _lifted_errors(dictionary, tokens, latents)
    own = kernel_error(_quadratic_form(dictionary, latents), latents)
    if isinstance(dictionary.lens, PaperLens):
        return TokenErrors(product_space=own, objective=own)
    left, right = dictionary.used_factors(tokens.dtype, raw=True)
    scaled = dictionary.at_own_scale(tokens, latents)
    cross = (scaled * latents_of(dictionary.mixing, tokens, left, right)).sum(-1)
    raw = _quadratic_form(dictionary, scaled, raw=True) - 2 * cross + 1
    return TokenErrors(product_space=raw, objective=own)


def _quadratic_form(dictionary: BilinearAutoencoder, latents: Tensor, *, raw: bool = False) -> Tensor:
    """zᵀKz per token, of the forms on x̃ or on the raw unit token."""
    if path_of(dictionary) == "kernel":
        return quadratic_form(latents, FastStep.kernel_of(dictionary, latents.dtype, raw=raw))
    left, right = dictionary.used_factors(latents.dtype, raw=raw)
    weights, used = dictionary.mixing.unmix(latents), dictionary.mixing.used_atoms
    if used is not None:
        weights = weights.index_select(1, used)
    return blocked_quadratic_form(weights, left, right, dictionary.symmetric, dictionary.block_size or DEFAULT_BLOCK)


def _lifted_errors(
    dictionary: BilinearAutoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> TokenErrors:
    """Both errors from one reconstruction: that of uuᵀ is Û = TX̃̂Tᵀ, and z·y = uᵀÛu."""
    left, right = dictionary.used_factors(latents.dtype)
    rows = sparse_rows_of(dictionary.mixing, latents)
    assert rows is not None
    rebuilt = lifted_reconstruction(latents, left, right, rows, dictionary.symmetric)
    own = kernel_error(rebuilt.square().sum(-1), latents)
    if isinstance(dictionary.lens, PaperLens):
        return TokenErrors(product_space=own, objective=own)
    (n, d), width, to_raw = tokens.shape, left.shape[1], dictionary.lens.to_raw
    scale = dictionary.at_own_scale(tokens, tokens.new_ones(n, 1))
    half = to_raw(unpacked(rebuilt * scale, width, dictionary.symmetric).flatten(0, 1))
    raw = to_raw(half.view(n, width, d).mT.flatten(0, 1)).view(n, d, d)
    cross = (raw @ tokens[..., None])[..., 0].mul(tokens).sum(-1)
    return TokenErrors(product_space=raw.square().sum((1, 2)) - 2 * cross + 1, objective=own)
