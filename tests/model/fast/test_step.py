"""The fast step gives what the plain one gives, values and all gradients, whichever way it takes."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model import Density, Error, Mean, Overlap, PlainStep, values_of
from quadric.model.fast import kernel, latents, lifted, products
from quadric.model.fast import step as fast_step
from quadric.model.fast.sparse import Sparse
from quadric.model.fast.step import FastStep, error_path, path_of
from quadric.model.mixing import Entries, Masked
from tests import naive, zoo
from tests.exactness import random
from tests.model.test_step import TERMS, assert_same_gradients, gradients

WAYS = {"kernel": {}, "blocked": {"block_size": 15}, "one block": {"block_size": 1000}, "too large": {}, "lifted": {}}
"""K as a whole, in blocks, what suits a dictionary that is too large for K, and the product space."""
SPARSE = [*zoo.SPARSE, "uneven"]
VARIETIES = [*zoo.VARIETIES, "uneven"]
CASES = [(variety, way) for variety in VARIETIES for way in WAYS if way != "lifted" or variety in SPARSE]
BOTH = pytest.mark.parametrize("blocks", ["whole", "small"])


def make(variety, way="kernel"):
    """A dictionary and the way it takes; latents of the uneven one have from no atoms to about four hundred."""
    ae = zoo.make(variety if variety != "uneven" else "composite sparse storage", **WAYS[way])
    if variety == "uneven":
        mask = random(*ae.mixing.shape) > torch.linspace(-3, 4, ae.n_latents)[:, None]
        mask[[2, -1]] = False
        rows, columns = mask.nonzero(as_tuple=True)
        ae.mixing = Sparse(Entries(rows, columns, random(len(rows)) / 5), ae.mixing.shape)
    return ae


@pytest.fixture(autouse=True)
def paths(request, monkeypatch):
    """Take the way of the case, and do everything in a few small blocks, recomputed for the backward pass, if asked."""
    given = (getattr(request.node, "callspec", None) and request.node.callspec.params) or {}
    if given.get("way") == "too large":
        monkeypatch.setattr(fast_step, "LARGEST_KERNEL", 10)
    if given.get("way") == "lifted":
        monkeypatch.setattr(fast_step, "error_path", lambda **_: "lifted")
    if given.get("blocks") == "small":
        for module in (kernel, latents, lifted):
            monkeypatch.setattr(module, "MOST_KEPT", 0)
        monkeypatch.setattr(products, "SMALLEST_BLOCK", 3)
        monkeypatch.setattr(products, "COLUMNS_AT_ONCE", 2)
        monkeypatch.setattr(latents, "ATOMS_AT_ONCE", 4)
        monkeypatch.setattr(latents, "TOKENS_AT_ONCE", 7)
        monkeypatch.setattr(latents, "NUMBERS_AT_ONCE", 90)
        monkeypatch.setattr(lifted, "NUMBERS_AT_ONCE", 2000)


@BOTH
@pytest.mark.parametrize(("variety", "way"), CASES)
def test_every_term_is_that_of_the_plain_step_or_refused_with_a_remedy(variety, way, blocks):
    ae, x = make(variety, way), zoo.tokens()
    for name, (term, _) in TERMS.items():
        needs_entries = name in ("error of the strongest", "overlap") and variety not in SPARSE
        if way != "kernel" and (name == "own on weights" or needs_entries):
            with pytest.raises(ValueError, match=r"not formed; use step.errors\(\)|leave (it|top) out, or start with"):
                term(FastStep(ae, x, loss=[term]))
            continue
        ours, expected = term(FastStep(ae, x, loss=[term])), term(PlainStep(ae, x))
        assert_close(ours, expected, rtol=1e-9, atol=0, msg=name)
        assert_same_gradients(ours, expected, ae, 1e-9)


@pytest.mark.parametrize(("variety", "way"), CASES)
def test_a_whole_loss_and_its_gradients_are_those_of_the_plain_step(variety, way):
    """Together: z is shared by the terms, so their gradients meet in it."""
    ae, x = make(variety, way), zoo.tokens()
    loss = [Mean(0.5), Error(), Density(0.3, warmup=0)]
    if way == "kernel" or variety in SPARSE:
        loss = [Mean(0.5), Error(top=3), Density(0.3, warmup=0), Overlap(0.1)]
    (ours, values), (expected, plain) = values_of(loss, ae.step(x, loss)), values_of(loss, PlainStep(ae, x))
    assert isinstance(ae.step(x, loss), FastStep)
    assert_close(values, plain, rtol=1e-9, atol=0)
    assert_same_gradients(ours, expected, ae, 1e-9)


@pytest.mark.parametrize(("variety", "way"), CASES)
def test_latents_that_equal_their_offset_on_every_token_are_harmless(variety, way):
    """As when all atoms are zero: every latent is silent, and every form empty."""
    ae, x = make(variety, way), zoo.tokens()
    with torch.no_grad():
        ae.left.zero_()
        ae.offset.zero_()
    loss = [Mean(0.5), Error(), Density(0.3, warmup=0)]
    loss += [Overlap(0.1)] if way == "kernel" or variety in SPARSE else []
    for step in (ae.step(x, loss), PlainStep(ae, x)):
        total, values = values_of(loss, step)
        assert values["error"] == values["density"] == 1
        assert all(gradient.isfinite().all() for gradient in gradients(total, ae))


@pytest.mark.parametrize(("variety", "way"), CASES)
def test_float32_is_as_near_as_it_can_be(variety, way):
    """And bfloat16 parameters, which would lose the cancelling error, are multiplied in float32."""
    ae, x = make(variety, way).float(), zoo.tokens(dtype=torch.float32)
    ours, expected = ae.loss(x).total, naive.objective(ae, x).mean() + 0.3 * naive.density(ae, x)
    assert_close(ours, expected, rtol=1e-5, atol=0)
    assert_same_gradients(ours, expected, ae, 1e-5)
    assert Error()(ae.bfloat16().step(x)).dtype == torch.float32


def test_as_many_of_the_strongest_as_there_are_change_no_bit():
    ae, x = zoo.make("composite sparse storage"), zoo.tokens()
    assert torch.equal(FastStep(ae, x).errors(ae.n_latents + 5), FastStep(ae, x).errors())


def test_the_path_is_the_cheaper_one():
    large = {"n_latents": 65_536, "n_hidden": 131_072, "width": 129}
    assert error_path(**large, is_sparse=True) == "lifted"
    assert error_path(**large, is_sparse=False) == "blocked", "the product space needs the entries of C"
    assert error_path(**{**large, "width": 577}, is_sparse=True) == "blocked"
    assert error_path(**{**large, "width": 577}, is_sparse=True, top=32) == "lifted"
    assert error_path(n_latents=8192, n_hidden=16_384, width=2, is_sparse=True) == "kernel"
    # 2kp = h² is the last size at which the product space is not dearer: p = 300 for w = 24.
    at_most = 18_000**2 // (2 * 300)
    assert error_path(n_latents=at_most, n_hidden=18_000, width=24, is_sparse=True) == "lifted"
    assert error_path(n_latents=at_most + 1, n_hidden=18_000, width=24, is_sparse=True) == "blocked"
    assert path_of(zoo.make("composite sparse storage", block_size=5)) == "blocked"
    assert isinstance(zoo.make("composite dense storage").mixing, Masked), "the zoo has both storages of a composite"
    assert isinstance(zoo.make("composite sparse storage").mixing, Sparse)
