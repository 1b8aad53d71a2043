"""Tensors, arrays, chunks and caches all give the same streams of batches."""

from pathlib import Path

import numpy as np
import pytest
import torch

from quadric.data.sources import ActivationsInMemory, as_activations


def rows(n: int = 10, d: int = 3) -> torch.Tensor:
    return torch.arange(n * d, dtype=torch.float32).view(n, d) + 1


def batches(x: object, **options: object) -> list[torch.Tensor]:
    stream = as_activations(x).stream(**{"batch_tokens": 4, "seed": None} | options)
    return [batch.activations["rows"] for batch in stream]


def test_a_tensor_an_array_and_chunks_give_the_same_rows_in_order() -> None:
    for x in (rows(), rows().numpy(), [rows()[:3], rows()[3:]], iter([rows()])):
        found = batches(x)
        assert [len(each) for each in found] == [4, 4, 2]
        assert torch.equal(torch.cat(found), rows())


def test_low_precision_becomes_float32_and_double_stays() -> None:
    assert batches(rows().half())[0].dtype == torch.float32
    assert batches(rows().double())[0].dtype == torch.float64


def test_a_seed_shuffles_every_epoch_differently_and_loses_no_row() -> None:
    stream = iter(as_activations(rows(8)).stream(batch_tokens=4, seed=3, repeat=True))
    epochs = [torch.cat([next(stream).activations["rows"] for _ in range(2)]) for _ in range(2)]
    assert not torch.equal(epochs[0], epochs[1])
    for epoch in epochs:
        assert torch.equal(epoch[epoch[:, 0].argsort()], rows(8))


@pytest.mark.parametrize("x", [rows(21), [rows(21)[:9], rows(21)[9:]]], ids=["tensor", "chunks"])
@pytest.mark.parametrize("given", [1, 3, 6])
def test_a_restored_stream_continues_with_the_next_batch(x: object, given: int) -> None:
    whole = as_activations(x).stream(batch_tokens=5, seed=1, repeat=True)
    iterator = iter(whole)
    for _ in range(given):
        next(iterator)
    state = whole.state_dict()
    restored = as_activations(x).stream(batch_tokens=5, seed=1, repeat=True)
    restored.load_state_dict(state)
    assert torch.equal(next(iterator).activations["rows"], next(iter(restored)).activations["rows"])
    other = as_activations(x).stream(batch_tokens=7, seed=1, repeat=True)
    with pytest.raises(ValueError, match="belongs to another stream"):
        other.load_state_dict(state)


def test_provenance_of_rows_is_their_hash() -> None:
    one, same, other = (as_activations(x).provenance for x in (rows(), rows().clone(), rows() + 1))
    assert one == same
    assert [line.partition(":")[0] for line in one.differences(other)] == ["rows_sha256"]
    assert one.for_hook_point("rows").hook_point is None


def test_repr_is_a_short_summary() -> None:
    assert repr(as_activations(rows(1000, 8))) == "Activations(1,000 × 8 at rows)"


def test_texts_are_accepted_for_the_rows_of_a_tensor_only() -> None:
    found = as_activations(rows(2), texts=["a", "b"])
    assert isinstance(found, ActivationsInMemory)
    assert found.texts == ["a", "b"]
    with pytest.raises(ValueError, match=r"3 texts for 2 rows"):
        as_activations(rows(2), texts=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"not a tensor, leave texts out"):
        as_activations([rows(2)], texts=["a", "b"])


def test_chunks_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a chunk has width 4, the first one 3"):
        batches([rows(4, 3), rows(4, 4)])


def test_a_folder_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="manifest"):
        as_activations(tmp_path)


def test_arrays_of_numbers_that_are_not_floats_are_refused() -> None:
    with pytest.raises(ValueError, match=r"torch.int64 of shape \(2, 2\)"):
        as_activations(np.ones((2, 2), dtype=np.int64))
