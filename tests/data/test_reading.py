"""`quadric.harvest` as a user calls it: a model in memory or by path, strings or a corpus, in memory or on disk."""

from pathlib import Path

import pytest
import torch

import quadric
from quadric.data.corpus import CorpusError
from quadric.data.hook_points import HookPointError
from quadric.data.models import ModelError
from tests.data.tiny import D_MODEL, save_tiny, tiny_causal, tiny_tokenizer

TEXTS = ["All happy families are alike.", "Each unhappy family is unhappy in its own way.", "So it goes."]


def harvested(model: object = None, texts: object = None, **options: object) -> quadric.Activations:
    causal = tiny_causal() if model is None else model
    given = {"layer": 2, "progress": False, "device": "cpu"} | options
    if model is None:
        given.setdefault("tokenizer", tiny_tokenizer())
    return quadric.harvest(causal, TEXTS if texts is None else texts, **given)


def test_strings_are_read_in_order_each_as_a_separate_sequence() -> None:
    acts = harvested()
    assert acts.hook_points == ("resid_pre.2",)
    assert len(acts) == sum(map(len, TEXTS))  # the tiny tokenizer has one token per byte
    lengths = torch.bincount(acts.batch.sequences).tolist()
    assert lengths == [len(text) for text in TEXTS]
    first = acts.sequences[0].tokens.tolist()
    assert acts.tokenizer.token_bytes(first) == [letter.encode() for letter in TEXTS[0]]


def test_the_vectors_are_those_of_a_plain_forward_pass() -> None:
    causal, tokenizer = tiny_causal(), tiny_tokenizer()
    acts = harvested()
    ids = torch.tensor([tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]])
    expected = causal(ids, output_hidden_states=True).hidden_states[2][0]
    # Batches of another size add up in another order, and entries reach 30.
    assert torch.allclose(acts.vectors[: len(expected)], expected, rtol=1e-4, atol=1e-4)


def test_a_model_in_training_mode_is_read_in_eval_mode_and_left_as_it_was() -> None:
    causal = tiny_causal(attention_dropout=0.5).train()
    first = harvested(causal, tokenizer=tiny_tokenizer())
    assert causal.training
    assert torch.equal(first.vectors, harvested(causal, tokenizer=tiny_tokenizer()).vectors)


def test_several_layers_and_a_limit_of_tokens() -> None:
    acts = harvested(layer=[1, "mlp_out.0"], tokens=20)
    assert set(acts.hook_points) == {"resid_pre.1", "mlp_out.0"}
    assert acts["resid_pre.1"].shape == (20, D_MODEL)
    with pytest.raises(ValueError, match=r"choose from: "):
        _ = acts.vectors


def test_activations_on_disk_are_the_same_and_a_second_call_uses_them(tmp_path: Path) -> None:
    stored = harvested(out=tmp_path / "cache")
    batch = next(iter(stored.stream(batch_tokens=10_000, seed=None)))
    assert torch.allclose(batch.activations["resid_pre.2"], harvested().vectors, rtol=1e-3)
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir())
    assert len(harvested(out=tmp_path / "cache")) == len(stored)
    assert before == sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir())
    with pytest.raises(ValueError, match=r"corpus_revision"):
        harvested(texts=["Something else."], out=tmp_path / "cache")


def test_on_disk_no_row_is_lost_where_bos_is_kept(tmp_path: Path) -> None:
    rules = quadric.data.TokenRules(prepend_bos="always", bos="keep", outliers="keep")
    assert len(harvested(rules=rules, out=tmp_path / "cache")) == sum(map(len, TEXTS)) + len(TEXTS)


def test_a_folder_and_a_file_of_text_work_too(tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiny")
    (tmp_path / "text.txt").write_text(" ".join(TEXTS) * 40)
    acts = quadric.harvest(
        str(tmp_path / "tiny"), tmp_path / "text.txt", layer=1, tokens=300, device="cpu", progress=False
    )
    assert len(acts) == 300
    assert acts.provenance.corpus == "text.txt"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"tokenizer": None}, ModelError, r"needs its tokenizer; give tokenizer="),
        ({"texts": ["  ", ""]}, CorpusError, r"all 2 texts are empty or white space"),
        ({"layer": 99}, HookPointError, r"99"),
        ({"tokens": 0}, ValueError, r"tokens=0 is not positive"),
        ({"model": torch.nn.Linear(2, 2)}, ModelError, r"a model in memory is a Linear"),
    ],
)
def test_bad_input_is_a_clear_error(arguments: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        harvested(**arguments)


def test_models_in_memory_are_told_apart_by_their_weights() -> None:
    causal = tiny_causal()
    one = harvested(causal, tokenizer=tiny_tokenizer()).provenance.model_revision
    assert one == harvested(tiny_causal(), tokenizer=tiny_tokenizer()).provenance.model_revision
    with torch.no_grad():
        causal.get_decoder().layers[0].mlp.up_proj.weight[0, 0] += 1
    assert one != harvested(causal, tokenizer=tiny_tokenizer()).provenance.model_revision
