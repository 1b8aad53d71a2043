"""Leading eigenforms of WᵀW from the kernel, against the d²×d² operator itself."""

import pytest
import torch

from quadric.geometry import eigenspaces
from quadric.geometry.eigenspaces import leading_eigenspace
from quadric.geometry.kernels import cross_kernel
from tests.geometry.examples import planted_shapes, trained


def flat_forms(ae):
    return torch.stack([ae.form(i).double().flatten() for i in range(ae.n_latents)])


@pytest.mark.parametrize("largest_dense", [1_024, 0])
def test_eigenforms_are_eigenvectors_of_the_operator(largest_dense, monkeypatch):
    monkeypatch.setattr(eigenspaces, "LARGEST_DENSE", largest_dense)
    ae = trained("quadratic")
    forms = flat_forms(ae)
    values, coefficients = leading_eigenspace(cross_kernel(ae, ae), 5)
    eigenforms = coefficients.mT @ forms
    torch.testing.assert_close(eigenforms @ eigenforms.mT, torch.eye(5).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(eigenforms @ forms.mT @ forms, values[:, None] * eigenforms, atol=1e-5, rtol=0)
    expected = torch.linalg.eigvalsh(forms.mT @ forms).flip(0)[:5]
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)


def test_no_more_eigenforms_than_the_rank():
    ae = planted_shapes()
    assert len(leading_eigenspace(cross_kernel(ae, ae), 64).eigenvalues) == 5  # one of six latents is empty
    assert len(leading_eigenspace(torch.zeros(3, 3), 2).eigenvalues) == 0
    with pytest.raises(ValueError, match="count=0 is not positive"):
        leading_eigenspace(torch.eye(3), 0)
