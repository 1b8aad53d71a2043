"""A site holds what the evidence and the weights hold, for tokens of a text and for rows of a tensor."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from quadric.evidence import ModelLabels
from quadric.evidence.collecting import gather
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.evidence.ranking import worth
from quadric.evidence.record import LabelScore
from quadric.geometry import Neighbours, dictionary_geometry, neighbours, redundancy, statistics
from quadric.viewer import dictionaries, schema
from quadric.viewer.encoding import unpack
from quadric.viewer.export import SiteInput, build_site, site_parts, unused_name
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS
from tests.viewer.rows import row_evidence, row_site_input, rows
from tests.viewer.small_evidence import EVIDENCE, N_LATENTS, TEXT, site_input


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    return folder


@pytest.fixture
def layout(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A layout in place of UMAP, which test_layout.py runs: numba would compile it here for nothing."""
    places = np.random.default_rng(0).standard_normal((N_LATENTS, 2)).astype(np.float32)

    def stand_in(close: Neighbours, seed: int) -> np.ndarray:
        assert len(close.latents) == N_LATENTS
        return places

    monkeypatch.setattr(dictionaries, "umap_layout", stand_in)
    return places


def test_a_site_is_written_and_read_back(tmp_path: Path, static: Path, layout: np.ndarray) -> None:
    progress: list[tuple[str, int, int, str]] = []
    manifest = build_site(
        [site_input()], tmp_path / "site", static=static, on_progress=lambda *step: progress.append(step)
    )
    assert progress[-1] == ("pages", N_LATENTS, N_LATENTS, "")
    assert ("geometry", 2 * N_LATENTS, 2 * N_LATENTS, "") in progress
    (entry,) = manifest.dictionaries
    assert (entry.name, entry.source, entry.n_latents, entry.text) == ("small", "runs/x", N_LATENTS, "random")
    assert "UMAP" in (entry.umap or "")
    stored = unpack((tmp_path / "site/data/small/latents/00003.st").read_bytes())
    ae, centre = small_autoencoder(N_LATENTS), EVIDENCE.calibration.tokens_centre()
    assert stored["neighbours"].tolist() == neighbours(ae, centre=centre).latents[3].tolist()
    assert entry.centre_norm == pytest.approx(float(centre.mean.norm()))
    assert (entry.lens, entry.sampling.positive_share) == ("paper", "Σ(z − rest)²")
    assert "ridge regression" in entry.sampling.linear_control
    index = unpack((tmp_path / "site/data/small/index.st").read_bytes())
    table = statistics(ae, centre=centre)
    assert [schema.SHAPES[int(shape)] for shape in index["shape"]] == list(table.shape)
    np.testing.assert_allclose(index["curvature"], table.curvature, rtol=1e-5)
    np.testing.assert_array_equal(index["measured_curvature"], EVIDENCE.statistics.curvature)
    np.testing.assert_array_equal(index["copy_of"], table.copy_of)
    np.testing.assert_array_equal(index["worth"], worth(EVIDENCE, redundancy(ae)))
    np.testing.assert_array_equal(index["density"], EVIDENCE.statistics.density)
    np.testing.assert_array_equal(np.stack([index["umap_x"], index["umap_y"]], axis=1), layout)


def test_a_folder_that_is_not_a_site_is_refused_before_anything_is_computed(tmp_path: Path, static: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    progress: list[tuple[str, int, int, str]] = []
    with pytest.raises(FileExistsError, match="not a site made by Quadric"):
        build_site([site_input()], tmp_path / "mine", static=static, on_progress=lambda *step: progress.append(step))
    assert progress == []


def test_known_geometry_gives_the_same_site_and_other_geometry_is_refused(tmp_path: Path, static: Path) -> None:
    ae, centre = small_autoencoder(N_LATENTS), EVIDENCE.calibration.tokens_centre()
    known = dataclasses.replace(site_input(), geometry=dictionary_geometry(ae, moments=centre))
    progress: list[tuple[str, int, int, str]] = []
    about_origin = dataclasses.replace(site_input(), geometry=dictionary_geometry(ae))  # is computed again
    for name, given in (("fresh", site_input()), ("known", known), ("origin", about_origin)):
        site_parts([given], with_map=False, on_progress=lambda *step: progress.append(step))
        build_site([given], tmp_path / name, with_map=False, static=static)
    assert progress.count(("geometry", 2 * N_LATENTS, 2 * N_LATENTS, "")) == 2  # not of the known one
    for path in (tmp_path / "fresh/data/small").rglob("*.st"):
        for name in ("known", "origin"):
            assert path.read_bytes() == (tmp_path / name / path.relative_to(tmp_path / "fresh")).read_bytes()
    other = dataclasses.replace(known, geometry=dictionary_geometry(small_autoencoder(N_LATENTS, seed=9)))
    with pytest.raises(ValueError, match="is about other weights"):
        site_parts([other], with_map=False)


def test_autoencoders_on_the_same_text_share_it_and_others_do_not() -> None:
    other = RandomText(30, seed=9)
    texts, dictionaries = site_parts(
        [site_input("a"), site_input("b", seed=5), site_input("c", text=other)], with_map=False
    )
    assert [text.name for text in texts] == ["random", "random-2"]
    assert [each.entry.text for each in dictionaries] == ["random", "random", "random-2"]
    assert all(each.columns.umap_x is None and each.entry.umap is None for each in dictionaries)
    assert {text.unit for text in texts} == {"token"}


def test_labels_written_by_a_model_are_marked_unevaluated() -> None:
    written = ModelLabels(texts={1: "ends of words"}, model="some-model", endpoint="http://x", prompt_sha256="0")
    labels = dataclasses.replace(EVIDENCE.labels, from_model=written)
    changed = dataclasses.replace(site_input(), evidence=dataclasses.replace(EVIDENCE, labels=labels))
    _, (dictionary,) = site_parts([changed], with_map=False)
    assert dictionary.labels[1].written == "ends of words"
    assert dictionary.labels[2].written is None
    assert dictionary.entry.labels.written == "some-model (unevaluated)"


def test_a_site_of_rows_says_so_and_keeps_every_row_text(tmp_path: Path, static: Path) -> None:
    manifest = build_site([row_site_input()], tmp_path / "site", with_map=False, static=static)
    (text,) = manifest.texts
    assert (text.name, text.unit) == ("rows", "row")
    assert text.n_sequences == text.n_tokens == len(row_evidence().text.token_ids)
    stored = json.loads((tmp_path / "site/data/site.json").read_text())
    assert stored["dictionaries"][0]["source"] is None
    assert stored["dictionaries"][0]["provenance"]["model"] is None


def test_the_context_of_a_row_is_the_row_alone() -> None:
    _, (dictionary,) = site_parts([row_site_input()], with_map=False)
    for record in dictionary.latents:
        around = np.delete(record.context_tokens, 4, axis=-1)
        assert (around == -1).all()
        known = record.contexts >= 0
        np.testing.assert_array_equal(record.context_tokens[..., 4][known], record.tokens[record.contexts[known]])


def test_the_points_of_a_row_site_are_the_rows_own_activations() -> None:
    given = row_site_input()
    _, (dictionary,) = site_parts([given], with_map=False)
    unit = torch.nn.functional.normalize(rows(), dim=1)
    z = given.autoencoder.encode(unit).detach().numpy()
    signs = given.evidence.calibration.signs
    for record in dictionary.latents:
        own = signs[record.latent] * z[record.places, record.latent]
        np.testing.assert_allclose(record.values, own, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lens", ["paper", "affine"])
def test_the_surface_drawn_passes_through_the_points(lens: str) -> None:
    """z = Σ(axis_quadratic ξ² + axis_linear ξ) + constant, where the axes hold the whole form; raw: up to m·u ≠ ‖μ‖."""
    ae = small_autoencoder(6, lens=lens)
    settings = dataclasses.replace(SETTINGS, n_axes=12)
    collector = Collector(ae, settings)
    gather([collector], RandomStream(TEXT, 100), TEXT, n_tokens=10**9)
    evidence = evidence_of(collector, TEXT, PROVENANCE.for_hook_point(HOOK), [])
    given = SiteInput(name="x", autoencoder=ae, evidence=evidence, source=None)
    _, (dictionary,) = site_parts([given], with_map=False)
    close = 0
    for record in dictionary.latents:
        along = record.coordinates.astype(float)
        drawn = along**2 @ record.axis_quadratic + along @ record.axis_linear + record.constant
        if (record.axis_kind == 1).any() or (record.axis_kind >= 0).sum() < record.rank:
            continue
        assert np.corrcoef(drawn, record.values)[0, 1] > (0.999 if lens == "affine" else 0.5)
        close += int(np.allclose(drawn, record.values, atol=1e-4))
    assert close > 0 or lens == "paper"


def test_labels_come_with_their_scores_and_say_how_they_were_judged() -> None:
    score = LabelScore(detection=0.8, fuzzing=0.9, n_contexts=50)
    written = ModelLabels(texts={1: "days", 2: "hours"}, model="m", endpoint="e", prompt_sha256="", scores={1: score})
    scores = [score, *[None] * (N_LATENTS - 1)]
    labels = dataclasses.replace(EVIDENCE.labels, scores=scores, from_model=written)
    given = dataclasses.replace(site_input(), evidence=dataclasses.replace(EVIDENCE, labels=labels))
    _, (dictionary,) = site_parts([given], with_map=False, clustered=0)
    shown = [(each.score, each.written_score) for each in dictionary.labels[:3]]
    expected = schema.LabelScore(detection=0.8, fuzzing=0.9, n_contexts=50)
    assert shown == [(expected, None), (None, expected), (None, None)]
    assert "chance is 0.5" in (dictionary.entry.labels.scored or "")
    assert dictionary.entry.labels.written == "m (which also judged them; 1 are unevaluated)"


def test_clusters_are_searched_in_as_many_latents_as_wanted(tmp_path: Path, static: Path) -> None:
    progress: list[tuple[str, int, int, str]] = []
    sparse = np.full(N_LATENTS, 0.1, dtype=np.float32)
    statistics = dataclasses.replace(EVIDENCE.statistics, density=sparse, curvature=10 * sparse)
    given = dataclasses.replace(site_input(), evidence=dataclasses.replace(EVIDENCE, statistics=statistics))
    for count in (0, 3):
        build_site(
            [given],
            tmp_path / str(count),
            with_map=False,
            clustered=count,
            static=static,
            on_progress=lambda *step: progress.append(step),
        )
    assert not (tmp_path / "0/data/small/clusters.json.gz").exists()
    assert ("clusters", 3, 3, "") in progress
    assert ("patterns", 3, 3, "") in progress
    found = json.loads(gzip.decompress((tmp_path / "3/data/small/clusters.json.gz").read_bytes()))
    assert len(found) == 3
    tests = json.loads(gzip.decompress((tmp_path / "3/data/small/patterns.json.gz").read_bytes()))
    assert tests.keys() == found.keys()
    assert [len(found[latent]["clusters"]) for latent in found] == [tests[latent][1]["statistic"] for latent in found]
    assert not (tmp_path / "0/data/small/patterns.json.gz").exists()
    with pytest.raises(ValueError, match="clustered=-1 is negative"):
        site_parts([site_input()], with_map=False, clustered=-1)


def test_without_scikit_learn_a_site_has_no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.evidence.clusters.find_spec", lambda name: None)
    _, (dictionary,) = site_parts([site_input()], with_map=False)
    assert (dictionary.entry.clusters, dictionary.clusters) == (None, {})
    assert (dictionary.entry.patterns, dictionary.patterns) == (None, {})


def test_where_no_latent_is_worth_a_look_no_pattern_is_found() -> None:
    statistics = dataclasses.replace(EVIDENCE.statistics, density=np.ones(N_LATENTS, dtype=np.float32))
    given = dataclasses.replace(site_input(), evidence=dataclasses.replace(EVIDENCE, statistics=statistics))
    _, (dictionary,) = site_parts([given], with_map=False)
    assert dictionary.patterns == {}
    assert dictionary.entry.patterns is not None
    assert [(kind.n_shown, kind.n_tested, kind.best) for kind in dictionary.entry.patterns.kinds] == [(0, 0, ())] * 4


@pytest.mark.parametrize(("wanted", "name"), [("a b/c", "a-b-c"), ("", "unnamed"), ("…", "unnamed"), ("x", "x-3")])
def test_names_can_be_folders_and_are_not_taken(wanted: str, name: str) -> None:
    assert unused_name(wanted, {"x", "x-2"}) == name
