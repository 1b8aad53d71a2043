"""What each kind can be told: defaults, what is refused when settings are made, and kinds of a user's own."""

import json
import math
from dataclasses import asdict, dataclass, replace

import pytest
import torch

import quadric
from quadric._io.records import record_from_json
from quadric.model import (
    Atomic,
    BatchTopK,
    Composite,
    Density,
    Dictionary,
    Error,
    JumpReLU,
    Mean,
    Overlap,
    Quadratic,
    ReLU,
    Settings,
    Subspaces,
    Term,
    TopK,
    load_pretrained,
    paper_loss,
    register,
)
from quadric.model.settings import KINDS, Bilinear, field_names, override, settings_class
from quadric.train import Learner, Training
from tests import zoo

OURS = (Atomic, Composite, Quadratic, TopK, BatchTopK, Subspaces, ReLU, JumpReLU)


@register("projection")
@dataclass(frozen=True, kw_only=True)
class Projection(Settings):
    """A kind from outside: what a user writes."""

    share: float = 0.5
    rows: tuple[int, ...] = ()

    def build(self, d_model, *, lens=None, seed=0):
        return ProjectionDictionary(self, d_model, seed=seed)


class ProjectionDictionary(Dictionary):
    def __init__(self, settings, d_model, *, seed):
        super().__init__(settings, d_model, seed=seed)
        basis = torch.randn(self.n_latents, d_model, generator=torch.Generator().manual_seed(seed))
        self.basis = torch.nn.Parameter(basis / d_model)
        self.register_buffer("age", torch.tensor(7))  # sorts before the basis, and is no floating-point number

    def encode(self, tokens):
        return tokens @ self.basis.mT

    def rebuild(self, tokens):
        return self.settings.share * self.encode(tokens) @ self.basis


@register("sharper_topk")
@dataclass(frozen=True, kw_only=True)
class SharperTopK(TopK):
    """A kind that extends one of ours by a setting."""

    sharpness: float = 2.0


def test_ours_are_registered_and_have_no_settings_of_others():
    assert list(KINDS)[: len(OURS)] == [kind.kind for kind in OURS]
    bilinear = {"n_latents", "lens", "symmetric", "same_factors", "init"}
    assert set(field_names(Atomic)) == bilinear
    assert set(field_names(Quadratic)) == bilinear | {"n_hidden"}
    assert set(field_names(Composite)) == bilinear | {"n_hidden", "atoms_per_latent", "initial_density"}
    assert set(field_names(TopK)) == {"n_latents", "n_active", "input", "subtract_decoder_bias"}
    assert set(field_names(Subspaces)) == {"n_latents", "rank", "n_active"}
    assert "n_active" not in field_names(ReLU)


@pytest.mark.parametrize("kind", [*OURS, Projection, SharperTopK])
def test_settings_come_back_from_json_and_make_their_dictionary(kind, tmp_path):
    settings = kind(n_latents=40)
    stored = json.loads(json.dumps(asdict(settings)))
    assert record_from_json(settings_class(kind.kind), stored, "settings") == settings
    settings.check_loss(settings.default_loss())
    ae = settings.build(12, seed=3)
    assert (ae.kind, ae.n_latents, ae.d_model, ae.seed) == (kind.kind, 40, 12, 3)
    assert type(ae.settings) is kind
    assert ae.settings == settings.resolved(12) == settings.resolved(12).resolved(12)
    ae.save_pretrained(tmp_path)
    back = load_pretrained(tmp_path)
    assert (back.settings, type(back)) == (ae.settings, type(ae))


def test_a_kind_of_ones_own_is_trained_and_stored_in_its_precision(tmp_path):
    ae = Projection(n_latents=8, share=1.0, rows=(1, 2)).build(12)
    learner = Learner(ae, training=Training(steps=30))
    losses = [learner.step(zoo.tokens(dtype=torch.float32))["squared_error"] for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0]
    ae.double().save_pretrained(tmp_path)
    back = load_pretrained(tmp_path)
    assert back.settings.rows == (1, 2)
    assert torch.equal(back.basis, ae.basis)
    assert back.basis.dtype == torch.float64
    assert back.age == 7


def test_none_stands_for_what_suits_the_size():
    assert Composite(n_latents=64).resolved(8) == Composite(
        n_latents=64, n_hidden=128, atoms_per_latent=16.0, initial_density=1.0
    )
    assert Composite(n_latents=4).mixing_density == 1.0, "four latents have eight atoms, fewer than 16"
    assert Composite(n_latents=8192, atoms_per_latent=16.384).mixing_density == pytest.approx(0.001)
    assert [Composite(n_latents=size).density_at_start for size in (4096, 4097)] == [1.0, 64 / (2 * 4097)]
    assert [Composite(n_latents=size).starts_sparse for size in (4096, 4097)] == [False, True]
    assert Quadratic(n_latents=64).resolved(8).n_hidden == 128
    assert (Atomic(n_latents=64).atoms, TopK().n_active) == (64, 32)
    assert Composite(n_latents=99, lens="paper", n_hidden=7).differences() == {"lens": "paper", "n_hidden": 7}


def test_the_default_loss_suits_lens_and_size():
    for kind in (Atomic, Composite, Quadratic):
        assert kind(lens="paper").default_loss() == paper_loss()
        assert kind(n_latents=512).default_loss() == (Error(top=32), Density(0.05), Overlap(0.01))
        assert kind(n_latents=601).default_loss()[0] == Mean()
        assert [kind(n_latents=size).default_loss()[0].top for size in (1, 32, 100)] == [1, 3, 10]
    assert Quadratic(n_latents=65_536).default_loss() == (Error(), Density(0.05)), "a dense C in blocks has no more"
    assert Composite(n_latents=65_536).default_loss() == (Mean(), Error(top=32), Density(0.05), Overlap(0.01))
    assert [term.weight for term in TopK().default_loss()] == [1, 0, 0]
    with pytest.raises(TypeError, match="abstract"):
        Settings()


class Kernel(Term):
    name = "needs_kernel"
    needs = ("kernel",)


@pytest.mark.parametrize(
    ("settings", "loss", "message"),
    [
        (Atomic(), (Error(), Density(), Error(0.1)), "the loss has error twice; add up their weights"),
        (Atomic(), (Error(0.0),), "the loss has no term with a weight above 0, so nothing would be trained; give one"),
        (Atomic(n_latents=16_385), (Kernel(),), r"needs_kernel needs the kernel, 1 GiB for n_latents=16385.*leave it"),
        (Quadratic(n_latents=8_193), (Error(top=3),), r"Error\(.*top=3\) needs the entries of C.*16386 atoms.*leave"),
        (Quadratic(n_latents=8_193), (Error(), Overlap()), r"Overlap\(weight=0.01\) needs the entries of C.*leave it"),
        (Composite(n_latents=20_000, initial_density=0.5), (Error(), Overlap()), "initial_density below 0.01"),
        (
            TopK(),
            (Overlap(),),
            r"Overlap\(weight=0.01\) needs the forms of .* a topk has none: leave it out",
        ),
        (TopK(), (Error(top=3),), "needs the forms of quadratic latents"),
        (BatchTopK(), (Error(), Mean()), "needs the forms of quadratic latents; a batch_topk has"),
        (ReLU(), (Kernel(),), "needs the kernel of quadratic latents; a relu has none"),
    ],
)
def test_a_loss_that_cannot_be_computed_is_refused_before_training(settings, loss, message):
    with pytest.raises(ValueError, match=message):
        settings.check_loss(loss)


def test_the_same_losses_are_accepted_where_they_can_be_computed():
    for settings in (Atomic(n_latents=16_384), Quadratic(n_latents=8_192)):
        settings.check_loss((Kernel(), Error(top=3), Overlap(), Mean()))
    Atomic(n_latents=16_385).check_loss((Error(top=3), Overlap(), Mean()))
    Composite(n_latents=20_000).check_loss((Error(top=3), Overlap()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Atomic(n_latents=0), "n_latents=0 is not positive; give at least 1"),
        (lambda: Quadratic(n_hidden=0), "n_hidden=0 is not positive; give at least 1"),
        (lambda: Composite(atoms_per_latent=0), r"atoms_per_latent=0 is outside \(0, 1024\]; give at most the number"),
        (lambda: Composite(n_latents=8, atoms_per_latent=99), r"atoms_per_latent=99 is outside \(0, 16\]"),
        (lambda: Composite(initial_density=0.0), r"initial_density=0.0 is outside \(0, 1\]; the paper starts"),
        (lambda: Composite(initial_density=1.5), r"initial_density=1.5 is outside \(0, 1\]"),
        (lambda: Composite(n_latents=8, initial_density=0.5), "initial_density=0.5 is below the 1 that C keeps .* 1, "),
        (lambda: TopK(n_latents=8), r"n_active=32 exceeds n_latents=8; lower n_active"),
        (lambda: BatchTopK(n_active=0), "n_active=0 is not positive"),
        (lambda: SharperTopK(sharpness=math.nan), "sharpness=nan is not a finite number; give one, or leave it out"),
        (
            lambda: override(Atomic(), {"n_hidden": 9}),
            "n_hidden=9 has no meaning for kind='atomic', which has n_",
        ),
        (lambda: override(TopK(), {"lens": "paper", "init": 1}), "init=1, lens='paper' has no meaning for kind='topk'"),
        (lambda: settings_class("cubic"), r"'cubic' is not a known kind .*atomic.*import the module .*--import"),
        (lambda: settings_class(["atomic"]), "is not a known kind of dictionary"),
        (
            lambda: Bilinear(),
            "Bilinear is not a registered kind, and files could not restore it; put @",
        ),
    ],
)
def test_mistakes_are_named_with_the_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_kinds_of_ours_cannot_be_replaced_or_renamed():
    @dataclass(frozen=True, kw_only=True)
    class Mine(TopK):
        pass

    before = dict(KINDS)
    with pytest.raises(ValueError, match="the kind 'topk' is Quadric's own; choose another name"):
        register("topk")(Mine)
    with pytest.raises(ValueError, match="TopK is registered as 'topk'; extend it to register 'mine'"):
        register("mine")(TopK)
    assert (before, TopK.kind) == (KINDS, "topk")
    with pytest.raises(ValueError, match="Mine is not a registered kind, and files could not restore it"):
        Mine()
    first, again = register("mine")(Mine), register("mine")(Mine)
    assert first is again
    assert replace(Mine(), n_latents=40).kind == "mine"
    del KINDS["mine"]


def test_dictionaries_take_settings_or_keywords_and_not_both():
    ae = quadric.BilinearAutoencoder(Composite(n_latents=8, lens="paper"), d_model=4)
    assert ae.settings.n_hidden == 16
    assert quadric.TopKAutoencoder(TopK(n_latents=40), d_model=4).n_active == 32
    for make, message in (
        (
            lambda: quadric.BilinearAutoencoder(Atomic(n_latents=8), d_model=4, n_latents=9),
            "n_latents=9 is given beside",
        ),
        (lambda: quadric.TopKAutoencoder(TopK(), d_model=4, n_active=9), "n_active=9 is given beside TopK"),
        (lambda: quadric.BilinearAutoencoder(d_model=4), "n_latents is missing; give the size of the dictionary"),
        (lambda: quadric.TopKAutoencoder(d_model=4), "n_latents is missing"),
        (
            lambda: quadric.TopKAutoencoder(d_model=4, n_latents=40, n_hidden=9),
            "n_hidden=9 has no meaning for kind='topk', which has n_latents, .*n_active; leave it out",
        ),
        (
            lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, tied=True),
            "tied=True has no meaning for kind='composite', which has n_latents, .*same_factors",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()
