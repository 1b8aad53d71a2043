"""One latent alone has the axes, coefficients and shape that it has among all."""

import pytest
import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from quadric.geometry import Form, decompose, latent_form, read
from quadric.geometry.axes import EIGENVECTOR, NO_AXIS
from quadric.geometry.quadrics import form_frame, latent_frame
from tests import zoo
from tests.geometry.centred import SETTINGS, centre_for
from tests.geometry.linear_dictionary import N_LATENTS, centre_of, tokens, topk


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_a_form_alone_has_the_frame_that_it_has_among_all(variety: str, where: str) -> None:
    ae, centre = zoo.make(variety), centre_for(where)
    every = decompose(ae, 3, centre=centre)
    for latent in (0, ae.n_latents - 1):
        frame = latent_frame(ae, latent, 3, centre)
        values = every.eigenvalues[latent]
        assert_close(frame.eigenvalues, values[values != 0], atol=1e-12, rtol=1e-6)
        assert frame.axis_kind.tolist() == every.axis_kind[latent].tolist()
        assert_close(frame.axes.float(), every.axes[latent], atol=1e-5, rtol=0)
        assert_close(frame.axis_linear, every.axis_linear[latent], atol=1e-6, rtol=1e-6)
        assert_close(frame.linear, read(ae, latent, centre).linear, atol=1e-9, rtol=1e-6)
        assert frame.constant == pytest.approx(float(every.constant[latent]))
        assert frame.shape == every.readings.shape_of(latent, every.tolerance)
        assert frame.curvature == pytest.approx(float(every.readings.curvature[latent]), abs=1e-9)


def test_a_direction_alone_has_the_frame_that_it_has_among_all():
    ae, centre = topk(), centre_of(tokens())
    every = decompose(ae, 5, centre=centre)
    for latent in (0, N_LATENTS - 1):
        frame = latent_frame(ae, latent, 5, centre)
        torch.testing.assert_close(frame.axes.float(), every.axes[latent])
        torch.testing.assert_close(frame.axis_linear, every.axis_linear[latent])
        assert frame.constant == pytest.approx(float(every.constant[latent]))
        assert frame.axis_kind.tolist() == every.axis_kind[latent].tolist()
        assert (frame.shape.kind, frame.curvature, len(frame.eigenvalues)) == ("half-space", 0, 0)
        torch.testing.assert_close(frame.linear, ae.encoder.detach()[latent].double())


def test_the_other_sign_turns_values_and_signature_but_no_axis() -> None:
    frame = latent_frame(zoo.make("quadratic affine"), 2)
    turned = frame.with_sign(-1.0)
    assert torch.equal(turned.axes, frame.axes)
    assert torch.equal(turned.eigenvalues, -frame.eigenvalues)
    assert torch.equal(turned.axis_quadratic, -frame.axis_quadratic)
    assert torch.equal(turned.linear, -frame.linear)
    assert (turned.constant, turned.shape.positive) == (-frame.constant, frame.shape.negative)
    assert frame.with_sign(1.0) is frame


def test_a_form_is_read_about_the_origin() -> None:
    plane = Form.total([Form.of_direction(axis) for axis in torch.eye(5)[:2]])
    frame = form_frame(plane, 3)
    assert frame.eigenvalues.tolist() == pytest.approx([1, 1])
    assert frame.axis_kind.tolist() == [EIGENVECTOR, EIGENVECTOR, NO_AXIS]
    assert (frame.shape.figure, frame.constant, frame.linear.any().item()) == ("circle", 0, False)
    ae = BilinearAutoencoder(d_model=6, n_latents=4, prior="atomic")
    assert_close(form_frame(latent_form(ae, 1)).axis_quadratic, latent_frame(ae, 1).axis_quadratic)
