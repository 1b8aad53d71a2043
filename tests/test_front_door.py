"""The front door: what `quadric` offers by name, and the whole way in ten lines."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import quadric
from tests.data.tiny import SIZES, tiny_tokenizer

FUNCTIONS = (
    "collect_evidence", "evaluate", "explain", "export", "export_site", "fit", "harvest", "intervene", "latents",
    "linear_dictionary", "load", "probe", "push", "show", "steering_curve", "view",
)  # fmt: skip
FOR_EXTENSIONS = ("forms_of", "paper_loss", "register")
"""Functions for kinds and losses of one's own."""
ROOMS = (
    "data", "model", "train", "run", "evaluation", "geometry", "evidence", "explanations", "interventions", "viewer",
    "interop", "studies",
)  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_package_shows_where_every_function_belongs(name: str) -> None:
    assert f"quadric.{name}(" in (quadric.__doc__ or "")


def test_no_public_function_is_left_out_of_these_tests() -> None:
    functions = {name for name in quadric.__all__ if inspect.isfunction(getattr(quadric, name))}
    assert functions - set(FOR_EXTENSIONS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_that_the_package_lists_is_there(name: str) -> None:
    assert f"quadric.{name}" in (quadric.__doc__ or "")
    assert getattr(quadric, name).__name__ == f"quadric.{name}"


def test_every_public_name_is_listed_and_found() -> None:
    assert set(quadric.__all__) <= set(dir(quadric))
    for name in quadric.__all__:
        assert getattr(quadric, name) is not None


def test_a_model_in_memory_and_strings_go_all_the_way_in_ten_lines(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokenizer = LlamaForCausalLM(LlamaConfig(**SIZES)), tiny_tokenizer()
    texts = [f"{day} comes before the day that follows {day}." for day in ("Monday", "Friday", "Sunday")] * 8
    acts = quadric.harvest(model, texts, layer=2, tokenizer=tokenizer)
    ae = quadric.fit(acts, n_latents=16, steps=6, batch_tokens=256)
    report = quadric.evaluate(ae, acts)
    evidence = quadric.collect_evidence(ae, acts, points=50)
    table = quadric.latents(ae, evidence)
    site = quadric.export_site(ae, evidence, tmp_path / "site", with_map=False)
    assert report.error < 1.2
    assert len(table) == 16
    assert any(table["label"])
    assert (site / "index.html").is_file()
    assert b"Monday" in b"".join(evidence.text.vocabulary[token] for token in evidence.text.token_ids[:200])


@pytest.fixture
def _without_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """No UMAP, whose compilation takes seconds per process: runs/test_demonstration.py has a site with its map."""
    monkeypatch.setattr("quadric.viewer.dictionaries.umap_layout", lambda neighbours, seed: None)


@pytest.mark.usefixtures("_without_map")
def test_rows_with_strings_of_ones_own_become_labels(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    names = ["apple", "boat", "cloud", "drum", "egg", "flag", "goat", "hat", "ink", "jar", "kite", "lamp"]
    centres = 4 * torch.randn(len(names), 16, generator=generator)
    kinds = torch.randint(len(names), (600,), generator=generator)
    x = centres[kinds] + 0.3 * torch.randn(600, 16, generator=generator)
    ae = quadric.fit(x, n_latents=12, steps=60, batch_tokens=200, progress=False)
    evidence = quadric.collect_evidence(ae, x, texts=[names[kind] for kind in kinds.tolist()], progress=False)
    assert evidence.provenance.model is None
    words = set(" ".join(evidence.labels.texts).replace("·", " ").replace("↔", " ").split())
    assert words & set(names)
    with quadric.view(ae, evidence, wait=False, open_browser=False, port=0, latent=2) as viewer:
        assert viewer.address.endswith("#/latent/2")


@pytest.mark.slow
def test_the_two_line_program_works_quietly() -> None:
    program = (
        "import torch, quadric; ae = quadric.fit(torch.randn(4000, 32), n_latents=64, steps=30); "
        "print(quadric.evaluate(ae, torch.randn(500, 32)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("composite with 64 latents\n  error")


@pytest.mark.parametrize(
    "make",
    [
        lambda ae, x: ae,
        lambda ae, x: quadric.data.sources.as_activations(x),
        lambda ae, x: quadric.evaluate(ae, x),
        lambda ae, x: quadric.collect_evidence(ae, x, points=20, progress=False),
        lambda ae, x: quadric.latents(ae),
        lambda ae, x: quadric.geometry.statistics(ae),
        lambda ae, x: quadric.geometry.spectrum(ae, 0),
        lambda ae, x: quadric.geometry.latent_form(ae, 0),
        lambda ae, x: quadric.geometry.neighbours(ae),
    ],
)
def test_results_print_as_short_summaries(make: object) -> None:
    x = torch.randn(300, 16, generator=torch.Generator().manual_seed(2))
    ae = quadric.BilinearAutoencoder(d_model=16, n_latents=40, prior="composite", mixing_density=0.05)
    shown = repr(make(ae, x))  # type: ignore[operator]
    assert len(shown.splitlines()) <= 12
    assert len(shown) < 1200


def test_no_room_has_the_name_of_a_public_function() -> None:
    """Importing a package `quadric.evaluate` would replace the function of that name."""
    package = Path(quadric.__file__).parent
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    assert rooms.isdisjoint(FUNCTIONS)
