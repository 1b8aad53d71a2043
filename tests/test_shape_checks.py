"""Shapes and types of the package are checked in every test: a wrong one is an error where it is passed."""

import pytest
import torch

from quadric.model import Provenance
from quadric.model.fast.kernel import atom_gram, n_kept_overlaps


def test_dimensions_of_one_name_have_one_size() -> None:
    with pytest.raises(TypeError, match="atom_gram"):
        atom_gram(torch.ones(3, 4), torch.ones(3, 5))


def test_a_result_is_checked_with_the_sizes_of_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.model.fast.kernel._AtomGram.apply", lambda *_: torch.ones(3, 5))
    with pytest.raises(TypeError, match="atom_gram"):
        atom_gram(torch.ones(3, 4), torch.ones(3, 4))


def test_calls_do_not_share_their_sizes() -> None:
    assert atom_gram(torch.ones(3, 4), torch.ones(3, 4)).shape == (3, 3)
    assert atom_gram(torch.ones(2, 5), torch.ones(2, 5)).shape == (2, 2)


def test_an_array_of_another_kind_is_refused() -> None:
    whole = torch.ones(3, 4, dtype=torch.int64)
    with pytest.raises(TypeError, match="atom_gram"):
        atom_gram(whole, whole)


def test_a_function_without_shapes_refuses_another_type() -> None:
    with pytest.raises(TypeError, match="n_atoms"):
        n_kept_overlaps("three", symmetric=True)  # type: ignore[arg-type]


def test_a_record_refuses_another_type() -> None:
    with pytest.raises(TypeError, match="model"):
        Provenance(model=3)  # type: ignore[arg-type]
