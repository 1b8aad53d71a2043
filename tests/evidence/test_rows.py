"""Evidence from the rows of a bare tensor: rows instead of tokens, the user's own strings as their text."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.data import ActivationBatch
from quadric.data.sources import as_activations
from quadric.evidence import Evidence, EvidenceSettings, RowText, collect
from quadric.evidence.collecting import collect_in_memory
from quadric.evidence.labelling import prompt_for
from quadric.evidence.streams import hook_point_here, provenance_here
from quadric.geometry import dictionary_geometry
from quadric.model import Provenance
from tests.evidence.streams import RandomStream
from tests.evidence.test_collector import assert_same

N_ROWS, D_MODEL = 300, 6
CLUSTERS = ("red", "green", "blue")
SETTINGS = EvidenceSettings(n_points=60, n_contexts=4, n_axes=3)


class TensorStream(RandomStream):
    """The rows of a tensor, which no language model made: no provenance and a made-up hook point."""

    hook_points = ("rows",)
    d_model = D_MODEL
    provenance = None

    def __init__(self, rows: torch.Tensor, batch: int = 64) -> None:
        self.vectors, self.batch, self.next = rows, batch, 0

    def __iter__(self):
        while self.next < len(self):
            numbers = torch.arange(self.next, min(self.next + self.batch, len(self)))
            self.next += len(numbers)
            yield ActivationBatch({"rows": self.vectors[numbers]}, numbers, numbers, numbers, torch.zeros_like(numbers))


def clustered_rows() -> torch.Tensor:
    """Row i belongs to cluster i mod 3, which has an axis of its own; there is a little noise."""
    rows = 0.05 * torch.randn(N_ROWS, D_MODEL, generator=torch.Generator().manual_seed(0))
    rows[torch.arange(N_ROWS), torch.arange(N_ROWS) % 3] += 1.0
    return rows


def names() -> list[str]:
    return [CLUSTERS[row % 3] for row in range(N_ROWS)]


def one_latent_per_cluster(**options: object) -> BilinearAutoencoder:
    ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=3, prior="atomic", **options)
    with torch.no_grad():
        ae.left.copy_(torch.eye(3, D_MODEL))
        ae.right.copy_(torch.eye(3, D_MODEL))
    return ae


def evidence_from(texts: Sequence[str] | None, settings: EvidenceSettings = SETTINGS, **options: object) -> Evidence:
    stream, text = TensorStream(clustered_rows()), RowText(N_ROWS, texts)
    return collect_in_memory(one_latent_per_cluster(), stream, text, n_tokens=N_ROWS, settings=settings, **options)


def test_labels_name_the_strings_of_the_planted_clusters() -> None:
    # one row in three fires, at √3 times the root mean square
    evidence = evidence_from(names(), EvidenceSettings(n_points=60, firing_rms=1.0))
    assert evidence.labels.texts == list(CLUSTERS)
    assert evidence.labels.positive == [[name] for name in CLUSTERS]
    for latent, name in enumerate(CLUSTERS):
        best = evidence.statistics.lift_tokens[latent, 0, 0]
        assert evidence.text.vocabulary[best] == name.encode()
        assert evidence.statistics.lifts[latent, 0, 0] == pytest.approx(3, rel=0.3)


def test_every_row_is_its_own_sequence_and_document() -> None:
    evidence = evidence_from(names())
    text = evidence.text
    assert len(text.token_ids) == len(text.sequence_starts) == evidence.n_tokens == N_ROWS
    np.testing.assert_array_equal(text.sequence_starts, np.arange(N_ROWS))
    np.testing.assert_array_equal(text.documents, np.arange(N_ROWS))
    assert sorted(text.vocabulary) == sorted(name.encode() for name in CLUSTERS)
    assert [text.vocabulary[token].decode() for token in text.token_ids] == names()


def test_rows_without_strings_are_called_by_their_number() -> None:
    evidence = evidence_from(None)
    for row, token in enumerate(evidence.text.token_ids):
        assert evidence.text.vocabulary[token] == f"row {row}".encode()
    for latent in range(3):
        places = evidence.points.places[latent]
        strongest = places[np.abs(evidence.points.values[latent]) > 0.5]
        assert len(strongest) > 10
        assert (strongest % 3 == latent).all()


def test_contexts_are_the_strongest_rows_alone() -> None:
    evidence, rows = evidence_from(None), clustered_rows()
    unit = rows / rows.norm(dim=1, keepdim=True)
    for latent in range(3):
        expected = (unit[:, latent] ** 2).topk(4)
        assert evidence.contexts.places[latent, 0].tolist() == expected.indices.tolist()
        np.testing.assert_allclose(evidence.contexts.values[latent, 0], expected.values, rtol=1e-5)
    prompt = prompt_for(evidence, 0)
    assert f"⟦row {evidence.contexts.places[0, 0, 0]}⟧" in prompt  # nothing before it and nothing after it


def test_rows_with_the_same_string_are_one_context() -> None:
    contexts = evidence_from(names()).contexts.places
    assert (contexts[:, 0] >= 0).sum(1).tolist() == [3, 3, 3]  # one row of each string


def test_provenance_is_empty_and_the_summary_says_so() -> None:
    evidence = evidence_from(names())
    assert evidence.provenance == Provenance()
    assert evidence.corpus_licence is None
    assert repr(evidence).startswith("Evidence(3 latents, 300 tokens of rows of a tensor;")
    assert len(repr(evidence)) < 200


def test_evidence_in_memory_is_evidence_from_disk(tmp_path: Path) -> None:
    in_memory = evidence_from(names(), geometry=dictionary_geometry(one_latent_per_cluster()))
    stream, text = TensorStream(clustered_rows(), batch=50), RowText(N_ROWS, names())
    folder = tmp_path / "evidence"
    stored = collect(
        one_latent_per_cluster(),
        stream,
        folder,
        n_tokens=N_ROWS,
        settings=SETTINGS,
        text=text,
        seconds_between_saves=0.0,
    )
    assert_same(in_memory, stored)
    in_memory.save(tmp_path / "saved")
    assert_same(Evidence.load(tmp_path / "saved"), in_memory)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_tensor_as_activations_gives_the_same_evidence_in_any_order(seed: int | None) -> None:
    stream = as_activations(clustered_rows()).stream(batch_tokens=70, seed=seed)
    found = collect_in_memory(
        one_latent_per_cluster(), stream, RowText(N_ROWS, names()), n_tokens=N_ROWS, settings=SETTINGS
    )
    assert_same(found, evidence_from(names()))
    assert (found.provenance.model, found.provenance.corpus, found.provenance.hook_point) == (None, None, None)


def test_nothing_is_written_and_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = []
    evidence_from(None, on_progress=lambda *report: seen.append(report))
    assert (seen[0], seen[-1]) == (("evidence", 0, N_ROWS, "tokens"), ("evidence", N_ROWS, N_ROWS, "tokens"))
    assert list(tmp_path.iterdir()) == []


def test_an_autoencoder_of_a_hook_point_may_read_a_bare_tensor() -> None:
    stream = TensorStream(clustered_rows())
    ae = one_latent_per_cluster(provenance=Provenance(hook_point="resid_pre.3", model="some model"))
    assert hook_point_here(ae, stream) == "rows"
    assert provenance_here(ae, stream) == Provenance()
    stream.provenance = Provenance(model="another model")
    with pytest.raises(ValueError, match="made for model 'some model', the stream has 'another model'"):
        provenance_here(ae, stream)
    stream.provenance = Provenance(hook_point="resid_pre.4")
    with pytest.raises(ValueError, match=r"reads hook point resid_pre\.3, but the stream has rows"):
        hook_point_here(ae, stream)


def test_an_empty_string_is_replaced_by_the_number_of_its_row() -> None:
    text = RowText(3, ["a", "", "a"])
    assert text.token_bytes(text.sequence(1).tokens.tolist()) == [b"row 1"]
    assert repr(text) == "RowText(3 rows, 2 distinct texts)"


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="2 texts were given for 3 rows; give one string per row"):
        RowText(3, ["a", "b"])
    with pytest.raises(ValueError, match="row 5 is outside 0 … 2"):
        RowText(3).sequence(5)
    with pytest.raises(ValueError, match="n_tokens=1 is too few"):
        collect_in_memory(one_latent_per_cluster(), TensorStream(clustered_rows()), RowText(N_ROWS), n_tokens=1)
