"""The autoencoder against the materialized d×d form: forms, precision, initialization, training's hooks, bad input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric import BilinearAutoencoder, Composite
from quadric.model.bilinear import is_mask_frozen, mixing_density_at
from quadric.model.lens import AffineLens
from tests import naive, zoo


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_repr_is_one_short_line(variety):
    text = repr(zoo.make(variety))
    assert text.startswith("BilinearAutoencoder(d_model=12, n_latents=")
    assert "\n" not in text
    assert len(text) < 220


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
def test_every_shape_down_to_one(n, d, k, h, prior, block_size, symmetric, same_factors):
    sizes = {"n_latents": k, "n_hidden": None if prior == "atomic" else h}
    density = {"mixing_density": 0.4} if prior == "composite" else {}
    variant = {"prior": prior, "symmetric": symmetric, "same_factors": same_factors, "block_size": block_size}
    ae = BilinearAutoencoder(d_model=d, dtype=torch.float64, **variant, **sizes, **density)
    x = zoo.tokens(n, d)
    assert_close(ae.error(x), naive.errors(ae, x), rtol=1e-9, atol=1e-12)
    terms = ae.loss(x, 0.3)
    terms.total.backward()
    assert terms.total.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in ae.parameters())


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


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_forms_encode_and_rebuild_what_the_error_measures(variety):
    ae, x = zoo.make(variety), zoo.tokens(5)
    assert_close(ae(x), naive.latents(ae, x))
    assert_close(ae.error(x), naive.errors(ae, x))
    unit = x / x.norm(dim=-1, keepdim=True)
    assert_close((ae.reconstruct(unit) - naive.lift(unit)).square().sum((1, 2)), ae.error(x))
    lifted = naive.forms(ae)
    own = torch.stack([ae.form(i) for i in range(ae.n_latents)])
    assert_close(own, (lifted + lifted.mT) / 2, msg="symmetric, whatever the kernel")
    assert_close(ae.kernel(), torch.einsum("ade,bde->ab", lifted, lifted))
    assert ae.float().kernel().dtype == torch.float32


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
        ({"prior": "atomic", "lens": zoo.affine_lens()}, "affine lens reads tokens of width 12, not d_model=4"),
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
    with pytest.raises(ValueError, match="weight=nan is not a finite number"):
        ae.loss(x, float("nan"))
    with pytest.raises(ValueError, match=r"mask is torch\.int64"):
        ae.loss(x, 0.3, mask=torch.ones(4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"mask is torch\.bool of shape"):
        ae.loss(x, 0.3, mask=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask drop all"):
        ae.loss(x, 0.3, mask=torch.zeros(4, dtype=torch.bool))
    with pytest.raises(IndexError, match="latent 16 is outside 0 … 15"):
        ae.form(16)


def test_the_density_of_c_decays_geometrically_over_the_first_half_and_freezes_for_the_last_fifth():
    densities = [mixing_density_at(step, 100, 0.001, 0.1) for step in range(101)]
    assert (densities[0], densities[25]) == pytest.approx((0.1, 0.01))
    assert densities[50:] == pytest.approx([0.001] * 51)
    assert mixing_density_at(25, 100, 0.001) == pytest.approx(0.001**0.5)
    assert [is_mask_frozen(step, 10) for step in range(10)] == [False] * 8 + [True] * 2


def test_before_a_step_c_follows_the_schedule_and_says_where_its_entries_went():
    ae = Composite(n_latents=40, atoms_per_latent=0.1, lens="paper").build(8)
    assert ae.before_step(0, 20) is None
    dense = ae.mixing.weight
    assert ae.before_step(4, 20) is None, "the same parameter under another mask"
    assert ae.mixing.weight is dense
    assert ae.facts() == {"mixing_density": pytest.approx(0.00125**0.4, rel=0.01)}
    for step in (8, 10):  # from dense to sparse, and from sparse to sparser
        before = ae.parameter_groups()[-1].parameters[0]
        moved = ae.before_step(step, 20)
        assert moved.before is before
        assert moved.after is ae.mixing.values is ae.parameter_groups()[-1].parameters[0]
        assert torch.equal(moved.before[moved.positions], moved.after)
    assert ae.mixing.n_entries == 4
    assert ae.before_step(10, 20) is None
    ae.settings = Composite(n_latents=40, atoms_per_latent=0.05, n_hidden=80, lens="paper")
    assert ae.before_step(17, 20) is None, "frozen"


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_every_parameter_has_one_optimizer(variety):
    ae = zoo.make(variety)
    groups = {group.name: group for group in ae.parameter_groups()}
    grouped = [parameter for group in groups.values() for parameter in group.parameters]
    assert sorted(map(id, grouped)) == sorted(map(id, ae.parameters()))
    assert [each.ndim for each in groups["vectors"].parameters] == [1]
    assert ("mixing" in groups) == (not variety.startswith("atomic"))


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
