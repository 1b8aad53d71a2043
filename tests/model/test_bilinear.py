"""The autoencoder against the materialized d×d form: values, gradients, storage forms, precision, bad input."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from quadric.model import bilinear, reference_loss
from quadric.model.bilinear import error_path
from quadric.model.fast.kernel import atom_gram
from quadric.model.fast.shared import Share
from quadric.model.lens import AffineLens
from quadric.model.mixing import Masked, Sparse
from tests import naive, zoo

PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5)]


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize("block_size", zoo.BLOCK_SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_error_is_that_of_the_materialized_matrices(variety, block_size, dtype, tolerance):
    ae = zoo.make(variety, dtype, block_size)
    x = zoo.tokens(dtype=dtype)
    assert_close(ae.error(x), naive.errors(ae, x), rtol=tolerance, atol=0)
    assert_close(ae.loss(x, 0.0).error, naive.objective(ae, x).mean(), rtol=tolerance, atol=0)


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize("block_size", zoo.BLOCK_SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_gradients_are_those_of_the_materialized_matrices(variety, block_size, dtype, tolerance):
    ae = zoo.make(variety, dtype, block_size)
    x = zoo.tokens(dtype=dtype)
    parameters = dict(ae.named_parameters())
    ours = torch.autograd.grad(ae.loss(x, 0.3).total, parameters.values())
    density = torch.stack([naive.hoyer(column) for column in (naive.unit_latents(ae, x) - ae.offset).T]).mean()
    expected = torch.autograd.grad(naive.objective(ae, x).mean() + 0.3 * density, parameters.values())
    for name, got, want in zip(parameters, ours, expected, strict=True):
        difference = float((got - want).norm() / want.norm())
        assert difference < tolerance, f"{name}: gradients differ by {difference}"


def test_varieties_cover_both_storages():
    assert isinstance(zoo.make("composite dense storage").mixing, Masked)
    assert isinstance(zoo.make("composite sparse storage").mixing, Sparse)


def assert_loss_is_that_of_the_reference(ae: BilinearAutoencoder, top_latents: int | None) -> None:
    """With all gradients."""
    x = zoo.tokens()
    parameters = dict(ae.named_parameters())
    ours, reference = ae.loss(x, 0.3, top_latents=top_latents), reference_loss(ae, x, 0.3, top_latents)
    assert_close(ours, reference, rtol=1e-10, atol=0)
    expected = torch.autograd.grad(reference.total, parameters.values())
    for name, got, want in zip(parameters, torch.autograd.grad(ours.total, parameters.values()), expected, strict=True):
        difference = float((got - want).norm() / want.norm())
        assert difference < 1e-10, f"{name}: gradients differ by {difference}"


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize(("block_size", "top_latents"), [(size, None) for size in zoo.BLOCK_SIZES] + [(None, 3)])
def test_loss_and_its_gradients_are_those_of_the_reference(variety, block_size, top_latents):
    assert_loss_is_that_of_the_reference(zoo.make(variety, block_size=block_size), top_latents)


LIFTED = [name for name in zoo.VARIETIES if name.startswith(("atomic", "composite sparse"))]
"""Varieties that can be evaluated in the product space."""


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate every dictionary in the product space, as those with many atoms are."""
    monkeypatch.setattr(bilinear, "error_path", lambda **_: "lifted")


@pytest.mark.parametrize("variety", LIFTED)
@pytest.mark.parametrize("top_latents", [None, 1, 3])
def test_the_loss_in_the_product_space_is_that_of_the_reference(variety, top_latents, lifted):
    assert_loss_is_that_of_the_reference(zoo.make(variety), top_latents)


@pytest.mark.parametrize("variety", LIFTED)
def test_the_overlap_penalty_in_the_product_space_is_that_of_the_kernel(variety, monkeypatch):
    ae, x = zoo.make(variety), zoo.tokens()
    found = []
    for path in ("kernel", "lifted"):
        monkeypatch.setattr(bilinear, "error_path", lambda *, path=path, **_: path)
        total = ae.loss(x, 0.3, overlap_penalty=0.7, top_latents=3).total
        found.append([total.detach(), *torch.autograd.grad(total, list(ae.parameters()))])
    for want, got in zip(*found, strict=True):
        assert float((got - want).norm() / want.norm()) < 1e-9


@pytest.mark.parametrize("variety", LIFTED)
def test_errors_in_the_product_space_are_those_of_the_materialized_matrices(variety, lifted):
    ae, x = zoo.make(variety), zoo.tokens(6).requires_grad_()
    assert_close(ae.error(x), naive.errors(ae, x), rtol=1e-9, atol=1e-12)
    assert_close(ae.errors_of(ae.prepare(x), ae.encode_prepared(ae.prepare(x))).objective, naive.objective(ae, x))
    leaves = [x, ae.left, ae.right]
    ours = torch.autograd.grad(ae.error(x).sum(), leaves)
    for got, want in zip(ours, torch.autograd.grad(naive.errors(ae, x).sum(), leaves), strict=True):
        assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_sums_in_the_product_space_add_up_over_parts_of_a_batch(lifted):
    """As processes add them, with their gradients."""
    ae, x = zoo.make("composite sparse affine"), zoo.tokens()

    def sums_and_gradients(tokens):
        sums = ae.loss_sums(tokens, overlap_penalty=0.7, top_latents=3, share=Share(0, 2))
        total = sums.objective + sums.l1.sum() + sums.l2_squared.sum()
        return [*(each.detach() for each in sums[:4]), *torch.autograd.grad(total, list(ae.parameters()))]

    whole, one, other = (sums_and_gradients(part) for part in (x, x[:11], x[11:]))
    for want, *parts in zip(whole, one, other, strict=True):
        assert_close(sum(parts), want, rtol=1e-9, atol=1e-11)


def test_the_error_path_is_the_cheaper_one():
    large = {"n_latents": 65_536, "n_hidden": 131_072, "width": 129}
    assert error_path(**large, is_sparse=True) == "lifted"
    assert error_path(**large, is_sparse=False) == "blocked", "the product space needs the entries of C"
    assert error_path(**{**large, "width": 577}, is_sparse=True) == "blocked"
    assert error_path(n_latents=8192, n_hidden=16_384, width=2, is_sparse=True) == "kernel"
    # 2kp = h² is the last size at which the product space is not dearer: p = 300 for w = 24.
    at_most = 18_000**2 // (2 * 300)
    assert error_path(n_latents=at_most, n_hidden=18_000, width=24, is_sparse=True) == "lifted"
    assert error_path(n_latents=at_most + 1, n_hidden=18_000, width=24, is_sparse=True) == "blocked"


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_the_error_of_the_strongest_latents_is_that_of_the_materialized_matrices(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    latents, forms = naive.unit_latents(ae, x), naive.forms(ae)
    size = (latents * forms.flatten(1).norm(dim=1)).abs()
    kept = torch.where(size >= size.sort(descending=True).values[:, 2:3], latents, 0)
    inputs = naive.seen(ae, x)
    target = naive.lift(inputs / inputs.norm(dim=-1, keepdim=True))
    rebuilt = torch.einsum("nk,kde->nde", kept, forms)
    expected = (rebuilt - target).square().sum((1, 2)).mean()
    assert_close(ae.loss(x, top_latents=3).error, expected, rtol=1e-9, atol=0)


def test_as_many_top_latents_as_there_are_change_no_bit():
    ae, x = zoo.make("composite sparse storage"), zoo.tokens()
    assert ae.loss(x, top_latents=ae.n_latents + 5) == ae.loss(x)


def test_top_latents_that_cannot_be_used_are_refused():
    x = zoo.tokens()
    with pytest.raises(ValueError, match=r"top_latents=0 is not a whole number"):
        zoo.make("quadratic").loss(x, top_latents=0)
    with pytest.raises(ValueError, match=r"top_latents=2 needs the kernel.* set it to None"):
        zoo.make("quadratic", block_size=2).loss(x, top_latents=2)


@pytest.mark.parametrize("variety", ["atomic", "composite sparse storage", "quadratic printed"])
def test_error_is_differentiable_in_tokens_and_parameters(variety):
    ae, x = zoo.make(variety), zoo.tokens(6).requires_grad_()
    leaves = [x, ae.left, ae.right]
    ours = torch.autograd.grad(ae.error(x).sum(), leaves)
    for got, want in zip(ours, torch.autograd.grad(naive.errors(ae, x).sum(), leaves), strict=True):
        assert_close(got, want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_repr_is_one_short_line(variety):
    text = repr(zoo.make(variety))
    assert text.startswith("BilinearAutoencoder(d_model=12, n_latents=")
    assert "\n" not in text
    assert len(text) < 200


@settings(max_examples=60)
@given(
    n=st.integers(1, 9),
    d=st.integers(1, 9),
    k=st.integers(1, 9),
    h=st.integers(1, 9),
    prior=st.sampled_from(["atomic", "composite", "quadratic"]),
    block_size=st.sampled_from([None, 1, 4]),
    symmetric=st.booleans(),
    same_factors=st.booleans(),
)
def test_every_shape_down_to_one(n, d, k, h, prior, block_size, symmetric, tied):
    sizes = {"n_latents": k, "n_hidden": None if prior == "atomic" else h}
    density = {"mixing_density": 0.4} if prior == "composite" else {}
    variant = {"prior": prior, "symmetric": symmetric, "tied": tied, "block_size": block_size}
    ae = BilinearAutoencoder(d_model=d, dtype=torch.float64, **variant, **sizes, **density)
    x = zoo.tokens(n, d)
    assert_close(ae.error(x), naive.errors(ae, x), rtol=1e-9, atol=1e-12)
    terms = ae.loss(x, 0.3)
    terms.total.backward()
    assert terms.total.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in ae.parameters())


def test_loss_is_differentiable_in_the_tokens_too():
    ae = zoo.make("composite dense storage")
    x = zoo.tokens(6).requires_grad_()
    (ours,) = torch.autograd.grad(ae.loss(x, 0.0).error, x)
    (expected,) = torch.autograd.grad(naive.errors(ae, x).mean(), x)
    assert_close(ours, expected, rtol=1e-8, atol=1e-12)


def test_loss_does_not_depend_on_the_scale_of_a_token_even_at_the_ends_of_float32():
    ae = zoo.make("composite dense storage", torch.float32)
    x = zoo.tokens(20, dtype=torch.float32)
    scale = torch.logspace(-30, 30, 20)[:, None]
    assert_close(ae.loss(x * scale, 0.3), ae.loss(x, 0.3), rtol=1e-5, atol=1e-6)


def test_mask_leaves_tokens_out_of_error_and_density_alike():
    ae = zoo.make("quadratic")
    x = zoo.tokens(20)
    mask = torch.arange(20) % 3 > 0
    padded = torch.where(mask[:, None], x, torch.nan)
    assert_close(ae.loss(padded, 0.3, mask=mask), ae.loss(x[mask], 0.3), rtol=0, atol=0)


def test_kernel_holds_the_inner_products_of_the_forms():
    ae = zoo.make("composite sparse storage", torch.float32)
    assert ae.kernel().dtype == torch.float32
    forms = torch.stack([ae.form(i) for i in range(ae.n_latents)])
    assert_close(ae.kernel(), torch.einsum("ade,bde->ab", forms, forms))


def test_form_is_the_symmetric_part_whatever_the_kernel():
    for variety in zoo.VARIETIES:
        ae = zoo.make(variety)
        lifted = naive.forms(ae)
        assert_close(torch.stack([ae.form(i) for i in range(ae.n_latents)]), (lifted + lifted.mT) / 2)


def test_reconstruct_is_what_the_error_measures():
    for variety in zoo.VARIETIES:
        ae = zoo.make(variety)
        x = zoo.tokens(5)
        unit = x / x.norm(dim=-1, keepdim=True)
        assert_close((ae.reconstruct(unit) - naive.lift(unit)).square().sum((1, 2)), ae.error(x))


def test_tied_atoms_are_positive_semidefinite_of_rank_one():
    ae = zoo.make("atomic tied")
    eigenvalues = torch.linalg.eigvalsh(torch.stack([ae.form(i) for i in range(ae.n_latents)]))
    assert (eigenvalues[:, :-1].abs() < 1e-12).all()
    assert (eigenvalues[:, -1] > 1e-3).all()
    assert sum(1 for _ in ae.parameters()) == 2, "L and the offset: R is L"


@pytest.mark.parametrize("prior", ["atomic", "quadratic"])
def test_orthogonal_and_xavier_initialization(prior):
    orthogonal = BilinearAutoencoder(d_model=8, n_latents=20, prior=prior)
    assert_close(orthogonal.left.mT @ orthogonal.left, torch.eye(8), atol=1e-5, rtol=0)
    xavier = BilinearAutoencoder(d_model=8, n_latents=20, prior=prior, init="xavier")
    bound = (6 / (8 + xavier.n_hidden)) ** 0.5
    assert 0.9 * bound < xavier.left.abs().max() <= bound


def test_a_seed_decides_every_parameter_and_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (
        BilinearAutoencoder(d_model=8, n_latents=6, mixing_density=0.5, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, same.tensors()[name])
    assert not torch.equal(one.left, other.left)


def test_paper_defaults():
    ae = BilinearAutoencoder(d_model=16, n_latents=100)
    assert (ae.prior, ae.n_hidden, ae.symmetric, ae.tied) == ("composite", 200, True, False)
    assert ae.mixing_density == pytest.approx(0.001)


def test_bfloat16_parameters_still_give_a_float32_error_because_bfloat16_would_lose_it():
    """A good autoencoder's error is the small difference of terms of size one, which bfloat16 rounds to 1/128."""
    d = 8
    ae = BilinearAutoencoder(d_model=d, n_latents=d * (d + 1) // 2, prior="atomic", dtype=torch.bfloat16)
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    with torch.no_grad():  # an orthonormal basis of symmetric matrices, shrunk a little: the exact error is 1e-4
        for row, (i, j) in enumerate(pairs):
            ae.left[row] = torch.eye(d)[i] * 0.99498743710662
            ae.right[row] = torch.eye(d)[j] * (1 if i == j else 2**0.5)
    exact = naive.errors(ae.double(), x := zoo.tokens(200, d)).mean()
    ae.bfloat16()
    error = ae.loss(x.float(), 0.0).error
    assert error.dtype == torch.float32
    assert abs(error - naive.errors(ae.double(), x).mean()) < 1e-6
    assert exact < 0.01
    ae.bfloat16()
    unit = (x / x.norm(dim=-1, keepdim=True)).bfloat16()
    z = (unit @ ae.left.mT) * (unit @ ae.right.mT)
    rounded = (((z @ atom_gram(ae.left, ae.right)) * z).sum(-1) - 2 * z.square().sum(-1) + 1).float()
    assert (rounded < 0).any(), "in bfloat16 a squared error comes out negative"
    assert abs(rounded.mean() - error) > 10 * abs(error - naive.errors(ae.double(), x).mean())


BAD_TOKENS = {
    "wrong width": (torch.ones(3, 11), r"\(3, 11\).*\(n, 12\)"),
    "three axes": (torch.ones(2, 3, 12), "flatten"),
    "one axis": (torch.ones(12), "shape"),
    "empty": (torch.ones(0, 12), "empty"),
    "integers": (torch.ones(3, 12, dtype=torch.long), r"torch.int64.*floating"),
    "nan": (torch.ones(3, 12).index_fill(0, torch.tensor([1]), torch.nan), "token 1 is not finite"),
    "inf": (torch.ones(3, 12).index_fill(0, torch.tensor([2]), torch.inf), "token 2 is not finite"),
    "zero": (torch.ones(3, 12).index_fill(0, torch.tensor([1]), 0), "token 1 is all zero"),
}


@pytest.mark.parametrize("method", ["encode", "loss", "error", "density"])
@pytest.mark.parametrize("case", BAD_TOKENS)
def test_bad_tokens_are_refused(case, method):
    tokens, message = BAD_TOKENS[case]
    with pytest.raises(ValueError, match=message):
        getattr(zoo.make("quadratic"), method)(tokens)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": "atomic", "n_hidden": 9}, "n_hidden=9.*n_latents=8.*leave n_hidden out"),
        ({"mixing_density": 0.0}, r"0.0.*\(0, 1\]"),
        ({"mixing_density": 1.5}, r"1.5.*\(0, 1\]"),
        ({"mixing_density": float("nan")}, r"nan.*\(0, 1\]"),
        ({"prior": "quadratic", "mixing_density": 0.1}, "no meaning for the quadratic prior"),
        ({"n_latents": 0}, "n_latents=0"),
        ({"d_model": -1}, "d_model=-1"),
        ({"block_size": 0}, "block_size=0"),
    ],
)
def test_impossible_architectures_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BilinearAutoencoder(**{"d_model": 4, "n_latents": 8, **arguments})


def test_other_bad_input_is_refused():
    ae, x = zoo.make("composite dense storage"), zoo.tokens(4)
    for density in (0.0, 1.0001, -1.0):
        with pytest.raises(ValueError, match=r"\(0, 1\]"):
            ae.set_mixing_density(density)
    with pytest.raises(ValueError, match="atomic prior has no mixing density"):
        zoo.make("atomic").set_mixing_density(0.5)
    with pytest.raises(ValueError, match="alpha=nan"):
        ae.loss(x, float("nan"))
    with pytest.raises(ValueError, match=r"mask is torch\.int64"):
        ae.loss(x, 0.3, mask=torch.ones(4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"mask is torch\.bool of shape"):
        ae.loss(x, 0.3, mask=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask drop all"):
        ae.loss(x, 0.3, mask=torch.zeros(4, dtype=torch.bool))
    with pytest.raises(IndexError, match="latent 16 is outside 0 … 15"):
        ae.form(16)


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_encode_is_the_form_of_what_the_lens_shows(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    assert_close(ae.encode(x), naive.latents(ae, x))


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_the_overlap_penalty_is_the_sum_of_squared_cosines(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    parameters = dict(ae.named_parameters())
    forms = naive.forms(ae).flatten(1)
    cosines = torch.nn.functional.normalize(forms) @ torch.nn.functional.normalize(forms).mT
    expected = (cosines.square().sum() - cosines.diagonal().square().sum()) / ae.n_latents
    ours = ae.loss(x, 0.3, overlap_penalty=0.7).total - ae.loss(x, 0.3).total
    assert_close(ours, 0.7 * expected)
    wanted = torch.autograd.grad(0.7 * expected, parameters.values(), allow_unused=True)
    for name, got, want in zip(parameters, torch.autograd.grad(ours, parameters.values()), wanted, strict=True):
        assert_close(got, torch.zeros_like(got) if want is None else want, msg=f"gradient of {name}")


def mean_error(ae, x):
    """‖mean of X̂ − mean of X‖², with every X̂ materialized."""
    latents, forms = naive.unit_latents(ae, x), naive.forms(ae)
    inputs = torch.nn.functional.normalize(naive.seen(ae, x))
    rebuilt = torch.einsum("ni,ide->nde", latents, forms)
    return (rebuilt - naive.lift(inputs).view_as(rebuilt)).mean(0).square().sum()


WAYS = [*product(zoo.VARIETIES, ["kernel"], [3, None]), *product(LIFTED, ["lifted"], [3, None])]
WAYS += product(zoo.VARIETIES, ["blocked"], [None])


@pytest.mark.parametrize(("variety", "path", "top_latents"), WAYS)
def test_the_mean_penalty_is_the_error_of_the_mean(variety, path, top_latents, monkeypatch):
    monkeypatch.setattr(bilinear, "error_path", lambda **_: path)
    ae, x = zoo.make(variety), zoo.tokens()
    parameters = dict(ae.named_parameters())
    expected = mean_error(ae, x)
    ours = (
        ae.loss(x, 0.3, top_latents=top_latents, mean_penalty=0.7).total
        - ae.loss(x, 0.3, top_latents=top_latents).total
    )
    assert_close(ours, 0.7 * expected)
    wanted = torch.autograd.grad(0.7 * expected, parameters.values(), allow_unused=True)
    for name, got, want in zip(parameters, torch.autograd.grad(ours, parameters.values()), wanted, strict=True):
        assert_close(got, torch.zeros_like(got) if want is None else want, msg=f"gradient of {name}")


def test_an_overlap_penalty_without_the_whole_kernel_is_refused():
    ae = zoo.make("atomic", block_size=5)
    with pytest.raises(ValueError, match=r"overlap_penalty=0.1 needs the kernel.*set it to 0"):
        ae.loss(zoo.tokens(), overlap_penalty=0.1)


def test_a_lens_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"the lens reads tokens of width 12, not d_model=8"):
        BilinearAutoencoder(d_model=8, n_latents=4, prior="atomic", lens=zoo.affine_lens())


def test_a_vector_read_from_the_last_column_has_its_own_sign():
    """Forms that span all of x̃x̃ᵀ rebuild it, and then the token itself, sign and all."""
    lens = AffineLens(torch.tensor([0.5, 0.2]), torch.tensor(0.4), torch.eye(2), torch.tensor(10)).double()
    ae = BilinearAutoencoder(d_model=2, n_latents=6, prior="atomic", lens=lens, dtype=torch.float64)
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    with torch.no_grad():
        for row, (i, j) in enumerate(pairs):
            ae.left[row] = torch.eye(3, dtype=torch.float64)[i]
            ae.right[row] = torch.eye(3, dtype=torch.float64)[j] * (1 if i == j else 2**0.5)
    x = zoo.tokens(20, d=2)
    assert_close(ae.error(x), torch.zeros(20, dtype=torch.float64), atol=1e-12, rtol=0)
    assert_close(ae.rebuild(x), x)
    unit = ae.prepare(x)
    assert_close(ae.rank_one_vectors_of(unit, ae.encode_prepared(unit)), unit, atol=1e-4, rtol=0)
