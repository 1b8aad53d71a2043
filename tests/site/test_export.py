"""What the site shows is what the evidence holds and what the weights say."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from quadric.evidence import Collector, Evidence, ModelLabels, evidence_of, gather
from quadric.geometry import dictionary_geometry, neighbours, spectrum, statistics
from quadric.site.encoding import unpack
from quadric.site.export import SiteInput, latent_record, site_parts, unused_name
from quadric.site.layout import umap_layout
from quadric.site.writer import write_site
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS

TEXT = RandomText(30)
N_LATENTS = 12


def evidence_for(seed: int = 2, text: RandomText = TEXT) -> Evidence:
    collector = Collector(small_autoencoder(N_LATENTS, seed=seed), SETTINGS)
    gather(collector, RandomStream(text, 100), text, n_tokens=10**9)
    return evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), [])


EVIDENCE = evidence_for()


def site_input(name: str = "small", seed: int = 2, text: RandomText = TEXT) -> SiteInput:
    evidence = EVIDENCE if (seed, text) == (2, TEXT) else evidence_for(seed, text)
    return SiteInput(name=name, autoencoder=small_autoencoder(N_LATENTS, seed=seed), evidence=evidence, source="runs/x")


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    return folder


def test_a_page_holds_every_point_and_every_context_once() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, table, close, latent)
        contexts = EVIDENCE.contexts.places[latent]
        wanted = {*EVIDENCE.points.places[latent].tolist(), *contexts.ravel().tolist()} - {-1}
        assert len(record.places) == len(wanted)
        assert set(record.places.tolist()) == wanted
        assert (np.diff(np.abs(record.values)) <= 0).all()
        shown = np.where(record.contexts >= 0, record.places[record.contexts], -1)
        np.testing.assert_array_equal(shown, contexts)
        np.testing.assert_array_equal(record.tokens, EVIDENCE.text.token_ids[record.places])
        in_context = record.coordinates[record.contexts[0, 0]]
        np.testing.assert_array_equal(in_context, EVIDENCE.contexts.coordinates[latent, 0, 0])


def test_windows_stay_inside_their_sequence() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    starts = EVIDENCE.text.sequence_starts.tolist()
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, table, close, latent)
        for place, window in zip(
            EVIDENCE.contexts.places[latent].ravel(), record.context_tokens.reshape(-1, 9), strict=True
        ):
            begin = max((start for start in starts if start <= place), default=0)
            around = [place + shift for shift in range(-4, 5)]
            inside = [place >= 0 and begin <= each < begin + 20 for each in around]
            expected = [EVIDENCE.text.token_ids[each] if ok else -1 for each, ok in zip(around, inside, strict=True)]
            assert window.tolist() == expected


def test_weights_speak_for_themselves() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    record = latent_record(EVIDENCE, table, close, 3)
    values = spectrum(ae, 3).eigenvalues
    np.testing.assert_allclose(record.eigenvalues, values, rtol=1e-5)
    assert record.rank == len(values)
    assert record.total_weight == pytest.approx(values.abs().sum().item())
    np.testing.assert_array_equal(record.neighbours, close.latents[3])


def test_a_site_is_written_and_read_back(tmp_path: Path, static: Path) -> None:
    progress: list[int] = []
    texts, dictionaries = site_parts([site_input()], on_progress=progress.append)
    assert sum(progress) == 3 * N_LATENTS
    manifest = write_site(tmp_path / "site", title="t", texts=texts, dictionaries=dictionaries, static=static)
    (entry,) = manifest.dictionaries
    assert (entry.name, entry.source, entry.n_latents, entry.text) == ("small", "runs/x", N_LATENTS, "random")
    assert "UMAP" in (entry.umap or "")
    stored = unpack((tmp_path / "site/data/small/latents/00003.st").read_bytes())
    assert stored["neighbours"].tolist() == neighbours(small_autoencoder(N_LATENTS)).latents[3].tolist()
    index = unpack((tmp_path / "site/data/small/index.st").read_bytes())
    np.testing.assert_array_equal(index["density"], EVIDENCE.statistics.density)


def test_known_geometry_gives_the_same_site_and_other_geometry_is_refused(tmp_path: Path, static: Path) -> None:
    known = dataclasses.replace(site_input(), geometry=dictionary_geometry(small_autoencoder(N_LATENTS)))
    progress: list[int] = []
    for name, given in (("fresh", site_input()), ("known", known)):
        texts, dictionaries = site_parts([given], with_map=False, on_progress=progress.append)
        write_site(tmp_path / name, title="t", texts=texts, dictionaries=dictionaries, static=static)
    assert sum(progress) == 2 * 3 * N_LATENTS
    for path in (tmp_path / "fresh/data/small").rglob("*.st"):
        assert path.read_bytes() == (tmp_path / "known" / path.relative_to(tmp_path / "fresh")).read_bytes()
    other = dataclasses.replace(known, geometry=dictionary_geometry(small_autoencoder(N_LATENTS, seed=9)))
    with pytest.raises(ValueError, match="that of other weights"):
        site_parts([other], with_map=False)


def test_autoencoders_on_the_same_text_share_it_and_others_do_not() -> None:
    other = RandomText(30, seed=9)
    texts, dictionaries = site_parts(
        [site_input("a"), site_input("b", seed=5), site_input("c", text=other)], with_map=False
    )
    assert [text.name for text in texts] == ["random", "random-2"]
    assert [each.entry.text for each in dictionaries] == ["random", "random", "random-2"]
    assert all(each.columns.umap_x is None and each.entry.umap is None for each in dictionaries)


def test_labels_written_by_a_model_are_marked_unevaluated() -> None:
    written = ModelLabels(texts={1: "ends of words"}, model="some-model", endpoint="http://x", prompt_sha256="0")
    labels = dataclasses.replace(EVIDENCE.labels, from_model=written)
    changed = dataclasses.replace(site_input(), evidence=dataclasses.replace(EVIDENCE, labels=labels))
    _, (dictionary,) = site_parts([changed], with_map=False)
    assert dictionary.labels[1].written == "ends of words"
    assert dictionary.labels[2].written is None
    assert dictionary.entry.labels.written == "some-model (unevaluated)"


def test_the_map_is_the_same_for_the_same_seed_and_puts_neighbours_together() -> None:
    ae = small_autoencoder(40, seed=1)
    close = neighbours(ae, count=5)
    layout = umap_layout(close, 0)
    np.testing.assert_array_equal(layout, umap_layout(close, 0))
    distance = np.linalg.norm(layout[:, None] - layout[None], axis=-1)
    near = distance[np.arange(40)[:, None], close.latents.numpy()].mean()
    assert near < 0.8 * distance.mean()


def test_a_handful_of_latents_has_no_map() -> None:
    assert umap_layout(neighbours(small_autoencoder(4)), 0) is None


@pytest.mark.parametrize(("wanted", "name"), [("a b/c", "a-b-c"), ("", "unnamed"), ("…", "unnamed"), ("x", "x-3")])
def test_names_can_be_folders_and_are_not_taken(wanted: str, name: str) -> None:
    assert unused_name(wanted, {"x", "x-2"}) == name
