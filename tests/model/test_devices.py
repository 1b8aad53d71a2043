"""Rows and modules move where they are wanted, and the CPU has everything; tests/devices has the other devices."""

import numpy as np
import torch

import quadric
from quadric.model import devices

CPU = torch.device("cpu")


def test_the_cpu_has_everything_but_fast_bfloat16() -> None:
    assert devices.has_float64(CPU)
    assert devices.has_csr(CPU)
    assert not devices.has_bfloat16(CPU)
    assert devices.exact_device(CPU) == CPU
    assert devices.exact(torch.ones(2)).dtype == torch.float64


def test_arrays_become_rows_without_a_copy() -> None:
    array = np.ones((2, 3), dtype=np.float32)
    assert np.shares_memory(devices.rows_on(array, CPU).numpy(), array)
    array.setflags(write=False)
    assert torch.equal(devices.rows_on(array, CPU), torch.ones(2, 3))


def test_a_dictionary_takes_arrays() -> None:
    ae = quadric.Atomic(n_latents=6, lens="paper").build(4)
    x = torch.randn(5, 4)
    assert torch.equal(ae.encode(x.numpy()), ae.encode(x))
    assert torch.equal(ae.rebuild(x.numpy()), ae.rebuild(x))


def test_a_module_that_is_there_is_not_copied() -> None:
    ae = quadric.Atomic(n_latents=6, lens="paper").build(4)
    assert devices.copy_on(ae, CPU) is ae
    moved = devices.copy_on(ae, torch.device("meta"))
    assert devices.device_of(moved).type == "meta"
    assert devices.device_of(ae) == CPU


def test_a_factorization_is_that_of_torch() -> None:
    matrix = torch.randn(3, 3)
    values, vectors = devices.factored(torch.linalg.eigh, matrix + matrix.mT)
    assert torch.allclose(vectors @ values.diag() @ vectors.mT, matrix + matrix.mT, atol=1e-5)
