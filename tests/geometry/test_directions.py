"""The latents of a linear dictionary about the centre: half-spaces whose value before the gate is exact on two axes."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder, linear_dictionary
from quadric.geometry import decompose, dictionary_geometry, latent_form, neighbours, read, redundancy, statistics
from quadric.geometry.axes import (
    LINEAR_DIRECTION,
    NO_AXIS,
    PRINCIPAL_COMPONENT,
    READING_DIRECTION,
    principal_components,
)
from quadric.geometry.centring import as_read, centring_of, directions_of, prepared
from quadric.geometry.dictionary_geometry import load_geometry, save_geometry, stored_geometry
from tests.geometry.linear_dictionary import D_MODEL, N_LATENTS, batch_topk, centre_of, tokens, topk

X = tokens()
CENTRE = centre_of(X)


def before_the_gate(ae: TopKAutoencoder) -> torch.Tensor:
    """W_enc (u − b_dec) + b_enc, by hand."""
    unit = torch.nn.functional.normalize(X.double(), dim=1)
    return (unit - ae.decoder_bias.double()) @ ae.encoder.double().mT + ae.encoder_bias.double()


@pytest.mark.parametrize("make", [topk, batch_topk])
def test_active_latents_are_their_affine_function_exactly(make):
    ae = make()
    z = ae.encode(ae.prepare(X)).double()
    assert (z > 0).any(0).sum() > N_LATENTS / 2
    torch.testing.assert_close(z[z > 0], before_the_gate(ae)[z > 0], atol=1e-6, rtol=1e-5)


def test_two_axes_give_the_value_before_the_gate_for_every_token():
    ae = topk()
    found = decompose(ae, 6, centre=CENTRE)
    v = centring_of(ae, CENTRE).coordinates(as_read(ae, prepared(ae, X)).double())
    assert found.axis_kind[:, :2].tolist() == [[LINEAR_DIRECTION, READING_DIRECTION]] * N_LATENTS
    assert (found.axis_kind[:, 2:] == PRINCIPAL_COMPONENT).all()
    for latent in range(N_LATENTS):
        on_axes = v @ found.axes[latent, :, :2].double()
        shown = on_axes @ found.axis_linear[latent, :2] + found.constant[latent]
        torch.testing.assert_close(shown, before_the_gate(ae)[:, latent], atol=1e-5, rtol=1e-5)
    assert not found.axis_quadratic.any()


def test_axes_are_the_decoder_then_the_encoder_then_components_of_the_tokens():
    ae = topk()
    found = decompose(ae, 5, centre=CENTRE)
    identity = torch.eye(5).expand(N_LATENTS, 5, 5)
    torch.testing.assert_close(found.axes.mT @ found.axes, identity, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.axes[..., 0], torch.nn.functional.normalize(ae.decoder.detach(), dim=1))
    assert (found.axis_linear[:, 1] >= 0).all()
    components = principal_components(CENTRE.covariance, 5).float()
    variance = torch.linalg.eigvalsh(CENTRE.covariance.double()).flip(0)[:5]
    torch.testing.assert_close((components.mT @ CENTRE.covariance @ components).diagonal().double(), variance)
    for latent in range(N_LATENTS):  # what is left of each component lies in the span of the axes up to it
        for number in range(3):
            span = found.axes[latent, :, : 3 + number]
            torch.testing.assert_close(span @ (span.mT @ components[:, number]), components[:, number])
    assert not found.axis_linear[:, 2:].abs().gt(1e-6).any()


def test_a_tied_encoder_leaves_one_axis_of_its_own():
    ae = TopKAutoencoder(d_model=D_MODEL, n_latents=N_LATENTS, n_active=2).eval()
    kinds = decompose(ae, 3, centre=CENTRE).axis_kind
    assert kinds.tolist() == [[LINEAR_DIRECTION, PRINCIPAL_COMPONENT, PRINCIPAL_COMPONENT]] * N_LATENTS
    assert decompose(ae, 3).axis_kind[0].tolist() == [LINEAR_DIRECTION, NO_AXIS, NO_AXIS]


def test_every_latent_is_a_half_space_without_curvature():
    ae = topk()
    table = statistics(ae, centre=CENTRE)
    assert set(table.shape) == {"half-space"}
    assert table.linear.all()
    assert not table.curvature.any()
    assert table.dimension.tolist() == table.support.tolist() == [1] * N_LATENTS
    norms = ae.decoder.detach().double().norm(dim=1)
    torch.testing.assert_close(table.norm, norms)
    torch.testing.assert_close(table.importance, norms.square() / norms.square().mean())
    assert not statistics(BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic")).linear.any()


def test_a_latent_that_writes_nothing_is_empty_and_one_that_reads_nothing_is_constant():
    ae = topk()
    with torch.no_grad():
        ae.decoder[2] = 0
        ae.encoder[3] = 0
    assert statistics(ae).shape[2:4] == ("empty", "constant")
    assert redundancy(ae).empty.nonzero().tolist() == [[2]]


def test_neighbours_go_by_the_squared_cosine_of_what_latents_write():
    ae = topk()
    found = neighbours(ae, 3, centre=CENTRE)
    unit = torch.nn.functional.normalize(ae.decoder.detach(), dim=1)
    squares = (unit @ unit.mT).square().fill_diagonal_(-1)
    torch.testing.assert_close(found.overlaps, squares.topk(3).values, atol=1e-5, rtol=1e-5)
    assert found.latents.tolist() == squares.topk(3).indices.tolist()


def test_reading_a_latent_gives_its_half_space():
    ae = topk()
    quadric = read(ae, 4, CENTRE)
    assert (quadric.shape, quadric.curvature) == ("half-space", 0)
    torch.testing.assert_close(quadric.direction, ae.encoder.detach()[4].double())
    v = centring_of(ae, CENTRE).coordinates(as_read(ae, prepared(ae, X)).double())
    torch.testing.assert_close(quadric.form(v), before_the_gate(ae)[:, 4], atol=1e-6, rtol=1e-5)
    with pytest.raises(IndexError, match="latent 14 is outside 0 … 13"):
        read(ae, N_LATENTS)


def test_without_a_centre_it_is_read_about_the_decoders_bias():
    ae = topk()
    torch.testing.assert_close(centring_of(ae).centre, ae.decoder_bias.detach().double())
    torch.testing.assert_close(decompose(ae).constant, ae.encoder_bias.detach().double())
    with pytest.raises(ValueError, match="the centre has 5 coordinates; the autoencoder reads d_model=10"):
        decompose(ae, centre=torch.zeros(5))


def test_as_a_whole_form_it_is_the_energy_along_what_it_writes():
    ae = topk()
    d = ae.decoder.detach()[6].double()
    torch.testing.assert_close(latent_form(ae, 6).matrix(), d.outer(d))


def test_constants_are_values_at_the_centre():
    ae = topk()
    found = directions_of(ae.forms(), CENTRE.mean, slice(3, 5))
    expected = before_the_gate(ae).mean(0)[3:5]  # affine, so the mean of the values is the value at the mean
    torch.testing.assert_close(found.constant, expected, atol=1e-6, rtol=1e-5)


def test_a_stored_geometry_stays_linear(tmp_path):
    ae = topk()
    geometry = dictionary_geometry(ae, moments=CENTRE)
    save_geometry(geometry, tmp_path)
    again = load_geometry(tmp_path)
    assert again.is_linear
    torch.testing.assert_close(again.axes, geometry.axes)
    assert stored_geometry(ae, tmp_path, moments=CENTRE) is not None
    assert stored_geometry(ae, tmp_path) is None
    bilinear = dictionary_geometry(BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic"))
    save_geometry(bilinear, tmp_path / "other")
    assert not load_geometry(tmp_path / "other").is_linear


@pytest.mark.parametrize("input", ["unit", "own", "constant_norm", "layer_norm"])
@pytest.mark.parametrize("subtract", [True, False])
def test_the_value_before_the_gate_is_affine_in_what_any_dictionary_reads(input, subtract) -> None:
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = torch.randn(2, 9, 6, generator=generator, dtype=torch.float64)
    bias, offset = torch.randn(6, generator=generator).double(), 50 + torch.rand(9, generator=generator).double()
    ae = linear_dictionary(
        encoder=encoder,
        decoder=decoder,
        encoder_bias=offset,  # so large that no latent is cut off at zero
        decoder_bias=bias,
        input=input,
        subtract_decoder_bias=subtract,
    )
    x = torch.linspace(0.5, 3, 40).double()[:, None] * torch.randn(40, 6, generator=generator).double()
    tokens = prepared(ae, x)
    v = as_read(ae, tokens)
    found = directions_of(ae.forms(), v.mean(0))
    torch.testing.assert_close((v - v.mean(0)) @ found.reads.mT + found.constant, ae.encode(tokens).detach())
