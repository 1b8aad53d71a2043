"""The files for Neuronpedia, read back line by line and compared with the dictionary's own latents."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quadric.interop import neuronpedia
from quadric.interop.neuronpedia import histogram_edges, load_lines, strongest_places, write_neuronpedia
from quadric.model import Provenance
from tests.interop.exported_run import Observed


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, or of all batches of a folder."""
    if path.is_dir():
        return [row for batch in sorted(path.iterdir()) for row in rows(batch)]
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.decode().splitlines()]


@pytest.fixture(params=["positive", "negative"])
def side(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def source(observed: Observed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: Any) -> Path:
    monkeypatch.setattr(neuronpedia, "LATENTS_PER_BATCH", 5)
    inside = write_neuronpedia(
        tmp_path, observed.autoencoder, observed.reading(), observed.evidence, side=side, model_name="owner/small"
    )
    assert inside == Path("small", "2-quadric" if side == "positive" else "2-quadric-negative")
    return tmp_path / inside


def by_place(observed: Observed) -> dict[int, int]:
    """Row of the activations at each position of the evidence's text."""
    starts, batch = observed.evidence.text.sequence_starts, observed.activations.batch
    return {
        int(starts[s]) + int(p): row for row, (s, p) in enumerate(zip(batch.sequences, batch.positions, strict=True))
    }


def test_layout(source: Path) -> None:
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    batches = [f"{kind}/batch-{n}.jsonl.gz" for kind in ("activations", "explanations", "features") for n in range(3)]
    assert names == [*batches, "model.jsonl", "release.jsonl", "source.jsonl", "sourceset.jsonl"]
    (described,) = rows(source / "source.jsonl")
    assert (described["id"], described["modelId"], described["setName"]) == (source.name, "small", "quadric")
    assert "activations" in load_lines(source.parent.parent, Path("small", source.name))


def test_values_of_every_token_are_the_latents_own(observed: Observed, source: Path, side: Any) -> None:
    away, places = (1 if side == "positive" else -1) * observed.away(), by_place(observed)
    text, found = observed.evidence.text, rows(source / "activations")
    for row in found:
        latent = int(row["index"])
        chosen = strongest_places(observed.evidence, latent, side)
        ours = [each for each in found if each["index"] == row["index"]]
        place = chosen[ours.index(row)]
        start = place - row["qualifyingTokenIndex"]
        here = range(start, start + len(row["values"]))
        expected = [away[places[each], latent] if each in places else 0 for each in here]
        np.testing.assert_allclose(row["values"], expected, rtol=1e-3, atol=1e-5)
        assert row["tokens"] == [text.vocabulary[text.token_ids[each]].decode() for each in here]
        assert row["maxValue"] == pytest.approx(max(row["values"]), rel=1e-4)
        assert row["values"][row["maxValueTokenIndex"]] == max(row["values"])


def test_the_strongest_token_of_all_comes_first(observed: Observed, source: Path, side: Any) -> None:
    away = (1 if side == "positive" else -1) * observed.away()
    first = {row["index"]: row for row in reversed(rows(source / "activations"))}
    for latent in range(12):
        row = first[str(latent)]
        assert row["values"][row["qualifyingTokenIndex"]] == pytest.approx(float(away[:, latent].max()), rel=1e-3)


def test_histograms_count_every_token(observed: Observed, source: Path, side: Any) -> None:
    away = (1 if side == "positive" else -1) * observed.away()
    edges = histogram_edges(observed.evidence, side)
    found = rows(source / "features")
    assert [row["index"] for row in found] == [str(latent) for latent in range(12)]
    for latent, row in enumerate(found):
        counts, _ = np.histogram(away[:, latent].clip(edges[latent, 0], edges[latent, -1]), edges[latent])
        assert sum(row["freq_hist_data_bar_heights"]) == len(observed.activations)
        assert np.abs(counts - row["freq_hist_data_bar_heights"]).sum() <= 4  # values next to an edge
        assert row["frac_nonzero"] == pytest.approx(float(observed.evidence.statistics.firing_share[latent]))
        assert row["pos_str"] == []


def test_labels_are_explanations(observed: Observed, source: Path) -> None:
    found = {int(row["index"]): row["description"] for row in rows(source / "explanations")}
    assert found == {latent: label for latent in range(12) if (label := observed.evidence.labels.of(latent))}
    assert found


def test_lines_have_the_same_name_every_time(observed: Observed, source: Path, side: Any, tmp_path: Path) -> None:
    again = tmp_path / "again"
    inside = write_neuronpedia(
        again, observed.autoencoder, observed.reading(), observed.evidence, side=side, model_name="owner/small"
    )
    for name in ("activations", "explanations", "features"):
        assert rows(again / inside / name) == rows(source / name)
    identifiers = [row["id"] for row in rows(source / "activations")]
    assert len(set(identifiers)) == len(identifiers)


def test_other_activations_than_those_of_the_evidence_are_refused(observed: Observed, tmp_path: Path) -> None:
    reading, batch = observed.reading(), observed.activations.batch
    shuffled = {name: vectors[torch.randperm(len(vectors))] for name, vectors in batch.activations.items()}
    reading.stream.rows = replace(batch, activations=shuffled)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="give the activations that the evidence was collected from"):
        write_neuronpedia(tmp_path, observed.autoencoder, reading, observed.evidence, model_name="small")
    assert not list(tmp_path.iterdir())


def test_a_model_name_that_is_no_folder_is_refused(observed: Observed, tmp_path: Path) -> None:
    for name in ("..", "owner/"):
        with pytest.raises(ValueError, match="does not end in a name for a folder"):
            write_neuronpedia(tmp_path, observed.autoencoder, observed.reading(), observed.evidence, model_name=name)


def test_a_dictionary_of_unknown_place_is_refused(observed: Observed, tmp_path: Path) -> None:
    autoencoder = observed.autoencoder
    known, autoencoder.provenance = autoencoder.provenance, Provenance()
    try:
        with pytest.raises(ValueError, match="records no language model and hook point"):
            write_neuronpedia(tmp_path, autoencoder, observed.reading(), observed.evidence)
    finally:
        autoencoder.provenance = known
