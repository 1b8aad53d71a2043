"""A dictionary recognizes the language model that it was trained on."""

import pytest
from transformers import AutoModelForCausalLM

from quadric.data.identity import WrongModelError, check_same_model
from quadric.data.models import find_model, model_in_memory, sampled_fingerprint
from quadric.model import Provenance
from tests.data.tiny import tiny_causal, tiny_model, tiny_tokenizer


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
