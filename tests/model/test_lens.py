"""Each identity of the lens against materialized matrices, in float64."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model.lens import AffineLens, PaperLens, affine_lens, token_moments
from quadric.model.objective import unit_tokens


def tokens(n: int = 200, d: int = 6, offset: float = 2.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    mean = offset * torch.nn.functional.normalize(torch.randn(d, generator=generator, dtype=torch.float64), dim=0)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + mean


def double(lens: AffineLens) -> AffineLens:
    return lens.double()


def test_the_papers_lens_changes_nothing_to_the_bit() -> None:
    x = tokens().float()
    assert PaperLens(6)(x) is x


def test_coordinates_are_the_centred_unit_token_and_a_constant() -> None:
    x = tokens()
    lens = double(affine_lens(token_moments(x)))
    found = lens(x)
    assert_close(found[:, :-1], unit_tokens(x) - lens.centre)
    assert_close(found[:, :-1].mean(0), torch.zeros(6, dtype=torch.float64), atol=1e-6, rtol=0)
    assert_close(lens(3 * x), found)  # a token's length says nothing


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_constant_has_the_wanted_share_of_the_energy(share: float) -> None:
    x = tokens()
    energy = double(affine_lens(token_moments(x), constant_share=share))(x).square()
    assert energy[:, -1].sum() / energy.sum() == pytest.approx(share, rel=1e-5)


def test_forms_in_the_lens_are_forms_on_the_unit_token() -> None:
    """xᵀ(T W̃ Tᵀ)x with the raw factors equals the form that X̃̂ has after the linear map back."""
    x = tokens()
    lens = double(affine_lens(token_moments(x)))
    assert_close(lens.to_raw(lens(x)), unit_tokens(x))  # u = T x̃
    left, right = (torch.randn(4, lens.width, dtype=torch.float64) for _ in range(2))
    back = torch.cat([torch.eye(6, dtype=torch.float64), (lens.centre / lens.constant)[:, None]], dim=1)
    assert_close(lens.to_raw(left).mT @ lens.to_raw(right), back @ (left.mT @ right) @ back.mT)


def test_a_perfect_last_column_gives_the_token_back_with_its_sign() -> None:
    x = tokens()
    lens = double(affine_lens(token_moments(x)))
    lifted = lens(x)
    column = lifted * lens.constant  # X̃'s last column is c·x̃
    assert_close(lens.vector_from(column), unit_tokens(x))
    assert_close(lens.vector_from(lens(-x) * lens.constant), -unit_tokens(x))


def test_moments_do_not_depend_on_how_tokens_were_batched() -> None:
    x = tokens()
    whole = token_moments(x)
    parts = token_moments(x[:17]) + token_moments(x[17:90]) + token_moments(x[90:])
    assert_close(parts, whole)
    assert_close(whole.mean, unit_tokens(x).mean(0))
    assert_close(whole.covariance, torch.cov(unit_tokens(x).mT, correction=0))


def test_a_lens_that_was_not_estimated_gives_no_plausible_number() -> None:
    lens = AffineLens.unknown(6)
    assert not lens.is_known
    assert lens(tokens()).isnan().all()
    assert affine_lens(token_moments(tokens())).is_known


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"constant_share=1.0 is not a share"):
        affine_lens(token_moments(tokens()), constant_share=1.0)
    with pytest.raises(ValueError, match=r"same direction.*lens='paper'"):
        affine_lens(token_moments(torch.ones(5, 3)))
