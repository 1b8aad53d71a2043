"""Summaries of evidence and its parts are short and without arrays; windows of text stay in their sequence."""

import numpy as np

from quadric.evidence import ModelLabels, TextRead
from quadric.evidence.labelling import LabellingReport
from quadric.evidence.record import MISSING
from tests.evidence.test_collector import collected, finished

EVIDENCE = finished(collected())


def test_summaries_are_one_line_with_sizes_and_without_arrays() -> None:
    parts = (EVIDENCE, EVIDENCE.text, EVIDENCE.points, EVIDENCE.contexts, EVIDENCE.statistics, EVIDENCE.labels)
    for part in parts:
        shown = repr(part)
        assert shown.startswith(f"{type(part).__name__}(")
        assert len(shown) < 200
        assert "\n" not in shown
        assert "array" not in shown
    assert repr(EVIDENCE).startswith(f"Evidence(6 latents, {EVIDENCE.n_tokens:,} tokens of random; 15 points")
    assert repr(EVIDENCE.text) == "TextRead(600 tokens in 30 sequences, 3 distinct tokens)"
    assert repr(EVIDENCE.points) == "Points(15 per latent of 6 latents, on 4 axes)"


def test_summaries_of_labels_count_them() -> None:
    texts = dict.fromkeys(range(1000), "a label")
    labels = ModelLabels(texts=texts, model="some-model", endpoint="http://x", prompt_sha256="0")
    assert repr(labels) == "ModelLabels(1,000 labels by some-model, unevaluated)"
    report = LabellingReport(texts, 10, {3: "no label"})
    assert repr(report) == "LabellingReport(1,000 labels, 10 of them from an earlier run, 1 failures)"


def test_windows_stay_in_their_sequence() -> None:
    text = TextRead(
        token_ids=np.array([4, 1, 2, 3, 0], dtype=np.int32),
        sequence_starts=np.array([0, 3]),
        documents=np.zeros(5, dtype=np.int32),
        vocabulary=[b"a", b"b", b"c", b"d", b"e"],
    )
    windows = [[MISSING, 0, 1], [0, 1, 2], [1, 2, MISSING], [MISSING, 3, 4], [3, 4, MISSING]]
    assert text.window(np.arange(5), 1).tolist() == windows
    assert text.window(np.array(4), 2).tolist() == [MISSING, 3, 4, MISSING, MISSING]
