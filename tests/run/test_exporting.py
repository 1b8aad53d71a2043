"""`quadric.export`: runs and autoencoders in, complete folders out; what makes no sense is refused before any work."""

from pathlib import Path
from typing import Any

import pytest
import torch

import quadric
from quadric.data import ActivationConfig, HarvestConfig, harvest_to_folder
from quadric.data.corpus import CorpusConfig
from quadric.evidence import collect, open_cached
from quadric.interop.export_folder import read_record
from quadric.model.storage import weights_sha256
from quadric.run.exporting import OPTIONS, TARGETS
from tests.explanations.small_run import NAME, SETTINGS, make_small_run
from tests.interop.dictionaries import bilinear, linear, tokens
from tests.interop.exported_run import Observed, observe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_run(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def observed() -> Observed:
    return observe()


def where(run: Path, to: str) -> dict[str, Any]:
    """What finds the language model and the text of the small run, for targets that read activations."""
    if to in ("saelens", "saebench"):
        return {}
    return {"model": str(run.parent / "tiny"), "corpus": str(run.parent / "texts"), "device": "cpu"}


@pytest.mark.parametrize("to", TARGETS)
def test_a_run_is_exported_to_every_tool(run: Path, tmp_path: Path, to: Any) -> None:
    found = quadric.export(run, to=to, out=tmp_path / "out", **where(run, to))
    assert found.to == to
    assert found.files
    assert all((found.folder / file).is_file() for file in found.files)
    assert str(tmp_path / "out") in found.load
    assert read_record(found.folder).weights_sha256 == weights_sha256(quadric.load(run))
    again = quadric.export(run, to=to, out=tmp_path / "out", **where(run, to))
    assert again == found


@pytest.mark.parametrize("to", ["neuronpedia", "delphi"])
def test_an_autoencoder_with_evidence_and_activations_is_exported(observed: Observed, tmp_path: Path, to: Any) -> None:
    given = {"evidence": observed.evidence, "activations": observed.activations}
    states: list[int] = []
    quadric.export(
        observed.autoencoder, to=to, out=tmp_path / "out", progress=lambda _, done, *rest: states.append(done), **given
    )
    assert states[-1] == len(observed.activations)


def test_delphi_takes_as_many_tokens_as_wanted(observed: Observed, tmp_path: Path) -> None:
    states: list[int] = []
    quadric.export(
        observed.autoencoder,
        to="delphi",
        out=tmp_path / "out",
        evidence=observed.evidence,
        activations=observed.activations,
        tokens=100,
        progress=lambda _, done, *rest: states.append(done),
    )
    assert states == [100]


def test_a_linear_dictionary_needs_no_evidence_for_delphi(observed: Observed, tmp_path: Path) -> None:
    topk = quadric.TopKAutoencoder(d_model=32, n_latents=16, n_active=3, provenance=observed.autoencoder.provenance)
    given: dict[str, Any] = {"to": "delphi", "activations": observed.activations, "progress": False}
    quadric.export(topk.eval(), out=tmp_path / "out", **given)
    with pytest.raises(ValueError, match=r"quantile is for quadratic latents"):
        quadric.export(topk, out=tmp_path / "other", quantile=0.99, **given)
    assert not (tmp_path / "other").exists()


def test_the_runs_own_cache_is_read_before_the_model(tmp_path: Path) -> None:
    run = make_small_run(tmp_path)
    corpus = CorpusConfig(source=str(tmp_path / "texts"), block_length=32, held_out_fraction=0.0)
    config = ActivationConfig(model=str(tmp_path / "tiny"), hook_points="layers.2", corpus=corpus)
    harvest_to_folder(config, HarvestConfig(tokens=1500), run / "activations", device="cpu")
    ae = quadric.load(run)
    assert isinstance(ae, quadric.BilinearAutoencoder)
    cached = open_cached(ae.provenance, run / "activations", 512)
    text = quadric.evidence.text_behind(cached, str(tmp_path / "tiny"))
    collect(ae, cached, run / "evidence" / NAME, n_tokens=1500, settings=SETTINGS, text=text)
    found = quadric.export(run, to="neuronpedia", out=tmp_path / "out", model=str(tmp_path / "tiny"))
    assert any("activations" in file for file in found.files)
    with pytest.raises(ValueError, match="device is for a language model that reads its text again"):
        quadric.export(run, to="delphi", out=tmp_path / "delphi", model=str(tmp_path / "tiny"), device="cpu")


def test_what_is_exported_again_is_the_same_dictionary(tmp_path: Path) -> None:
    x = tokens(20)
    quadric.export(linear("topk"), to="saelens", out=tmp_path / "first")
    quadric.export(tmp_path / "first", to="saelens", out=tmp_path / "second")
    first, second = quadric.load(tmp_path / "first"), quadric.load(tmp_path / "second")
    torch.testing.assert_close(first.encode(first.prepare(x)), second.encode(second.prepare(x)), rtol=0, atol=0)


@pytest.mark.parametrize("to", TARGETS)
def test_options_that_do_nothing_are_refused(to: Any, tmp_path: Path) -> None:
    values = {"tokens": 10, "quantile": 0.99, "side": "negative", "creator": "me", "model": "m", "device": "cpu"}
    for option in values.keys() - set(OPTIONS[to]):
        with pytest.raises(ValueError, match=f"{option} has no meaning for {to}; leave it out, or export to"):
            quadric.export(bilinear("atomic"), to=to, out=tmp_path / "out", **{option: values[option]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "delphi", "tokens": 0}, "tokens=0 is not a whole number"),
        ({"to": "delphi"}, "delphi needs evidence about the latents"),
        ({"to": "neuronpedia"}, "neuronpedia needs evidence about the latents"),
        ({"to": "saelens", "name": "other"}, "name='other' is for a run with several autoencoders"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        quadric.export(bilinear("atomic"), out=tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_a_dictionary_without_a_model_needs_activations(observed: Observed, tmp_path: Path) -> None:
    topk = linear("topk")
    topk.provenance = quadric.model.Provenance()
    with pytest.raises(ValueError, match="records no language model to read text with; give activations="):
        quadric.export(topk, to="delphi", out=tmp_path / "out")


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and no export by Quadric"):
        quadric.export(bilinear("atomic"), to="saelens", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
