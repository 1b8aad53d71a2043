"""Every token rule does what it documents, and what it drops is counted."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadric.data.token_rules import ActivationError, Sequences, TokenCounts, TokenRules, keep_tokens
from quadric.data.tokenizer import Tokenizer
from tests.data.tiny import tiny_tokenizer

LENGTH = 12
KEEP_ALL = TokenRules(bos="keep", special_tokens="keep", outliers="keep")


def with_bos() -> Tokenizer:
    return Tokenizer(tiny_tokenizer(adds_bos=True))


def sequences() -> Sequences:
    """Three sequences behind a BOS: one whole, one with a separator inside, one padded from position 5 on."""
    tokens = torch.arange(3 * LENGTH).view(3, LENGTH) + 10
    tokens[:, 0] = 1
    tokens[1, 6] = 0
    mask = torch.ones(3, LENGTH, dtype=torch.bool)
    mask[2, 5:] = False
    documents = torch.arange(3)[:, None].expand(3, LENGTH) + 100
    return Sequences(tokens, documents, mask, first=40)


def activations(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    directions = torch.nn.functional.normalize(torch.randn(2, 3, LENGTH, 4, generator=generator), dim=-1)
    return {"resid_pre.1": directions[0], "resid_pre.2": directions[1] * 2}


def test_padding_is_always_dropped_and_everything_else_can_be_kept() -> None:
    kept = keep_tokens(activations(), sequences(), KEEP_ALL, with_bos())
    assert torch.equal(kept.mask, sequences().mask)
    assert kept.counts == TokenCounts(
        positions=36, padding=7, kept=29, outliers_at={"resid_pre.1": 0, "resid_pre.2": 0}
    )
    assert torch.equal(kept.activations["resid_pre.1"], activations()["resid_pre.1"][sequences().mask])


def test_bos_and_special_tokens_have_separate_rules() -> None:
    default = keep_tokens(activations(), sequences(), TokenRules(), with_bos())
    assert not default.mask[:, 0].any()
    assert not default.mask[1, 6]
    assert (default.counts.bos, default.counts.special, default.counts.kept) == (3, 1, 25)
    bos_kept = keep_tokens(activations(), sequences(), TokenRules(bos="keep"), with_bos())
    assert bos_kept.mask[:, 0].all()
    assert (bos_kept.counts.bos, bos_kept.counts.special) == (0, 1)
    special_kept = keep_tokens(activations(), sequences(), TokenRules(special_tokens="keep"), with_bos())
    assert special_kept.mask[1, 6]
    assert (special_kept.counts.bos, special_kept.counts.special) == (3, 0)


def test_without_a_prepended_bos_the_first_token_is_kept() -> None:
    kept = keep_tokens(activations(), sequences(), TokenRules(prepend_bos="never", special_tokens="keep"), with_bos())
    assert kept.mask[:, 0].all()
    assert kept.counts.bos == 0


def outlying() -> dict[str, torch.Tensor]:
    """An outlier at the first hook point in sequence 0, at the second in sequence 1, and a huge BOS."""
    vectors = activations()
    vectors["resid_pre.1"][0, 3] *= 50
    vectors["resid_pre.2"][1, 4] *= 50
    vectors["resid_pre.1"][:, 0] *= 1000
    return vectors


def test_an_outlier_at_one_hook_point_is_dropped_at_all() -> None:
    kept = keep_tokens(outlying(), sequences(), TokenRules(), with_bos())
    assert not kept.mask[0, 3]
    assert not kept.mask[1, 4]
    assert (kept.counts.outliers, kept.counts.kept) == (2, 23)
    assert kept.counts.outliers_at == {"resid_pre.1": 1, "resid_pre.2": 1}
    assert {len(rows) for rows in kept.activations.values()} == {23}


def test_clipping_keeps_the_direction_and_caps_the_length() -> None:
    kept = keep_tokens(outlying(), sequences(), TokenRules(outliers="clip", outlier_factor=10.0), with_bos())
    assert kept.counts.outliers == 2
    assert kept.counts.kept == 25
    place = int(kept.mask[0, :3].sum())  # rows before position 3 of sequence 0
    clipped, original = kept.activations["resid_pre.1"][place], outlying()["resid_pre.1"][0, 3]
    assert clipped.norm().item() == pytest.approx(10.0, rel=1e-5)
    assert torch.nn.functional.cosine_similarity(clipped, original, dim=0).item() == pytest.approx(1.0)
    assert kept.activations["resid_pre.1"].norm(dim=1).max().item() == pytest.approx(10.0, rel=1e-5)


def test_keeping_outliers_changes_nothing() -> None:
    kept = keep_tokens(outlying(), sequences(), KEEP_ALL, with_bos())
    assert torch.equal(kept.activations["resid_pre.1"], outlying()["resid_pre.1"][sequences().mask])


@given(seed=st.integers(0, 1000), factor=st.floats(1.1, 20))
def test_what_is_kept_of_a_sequence_does_not_depend_on_the_others(seed: int, factor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = {"resid_pre.1": torch.randn(3, LENGTH, 4, generator=generator).exp()}
    rules = TokenRules(outlier_factor=factor)
    together = keep_tokens(vectors, sequences(), rules, with_bos())
    total = TokenCounts()
    for row in range(3):
        whole = sequences()
        alone = Sequences(whole.tokens[row : row + 1], whole.documents[row : row + 1], whole.mask[row : row + 1], 0)
        kept = keep_tokens({"resid_pre.1": vectors["resid_pre.1"][row : row + 1]}, alone, rules, with_bos())
        assert torch.equal(kept.mask[0], together.mask[row])
        total += kept.counts
    # How much is padded is the only thing that depends on the other sequences.
    assert dataclasses.replace(total, positions=total.positions - total.padding, padding=0) == dataclasses.replace(
        together.counts, positions=together.counts.positions - together.counts.padding, padding=0
    )
    assert total.kept == total.positions - total.padding - total.bos - total.special - total.outliers


def test_half_precision_comes_out_as_float32() -> None:
    vectors = {name: values.bfloat16() for name, values in activations().items()}
    kept = keep_tokens(vectors, sequences(), TokenRules(), with_bos())
    assert {rows.dtype for rows in kept.activations.values()} == {torch.float32}


@pytest.mark.parametrize(("value", "word"), [(0.0, "zero"), (float("nan"), "not finite"), (float("inf"), "not finite")])
def test_a_zero_or_non_finite_vector_is_an_error_that_names_its_position(value: float, word: str) -> None:
    vectors = activations()
    vectors["resid_pre.2"][1, 4] = value
    with pytest.raises(ActivationError, match=f"resid_pre.2 is {word} at document 101, sequence 41, position 4"):
        keep_tokens(vectors, sequences(), TokenRules(), with_bos())


def test_a_non_finite_vector_that_is_dropped_anyway_is_allowed() -> None:
    vectors = activations()
    vectors["resid_pre.2"][2, 7] = float("nan")  # padding
    vectors["resid_pre.2"][1, 6] = 0.0  # a separator
    assert keep_tokens(vectors, sequences(), TokenRules(), with_bos()).counts.kept == 25


def test_rules_are_recorded_with_auto_resolved() -> None:
    recorded = TokenRules().as_recorded(with_bos())
    assert recorded == {
        "prepend_bos": "always",
        "bos": "drop",
        "special_tokens": "drop",
        "outliers": "drop",
        "outlier_factor": 10.0,
        "separator": "<|endoftext|>",
        "padding": "drop",
        "outlier_median": "over the tokens of a sequence that the other rules keep",
    }
    assert TokenRules().as_recorded(Tokenizer(tiny_tokenizer()))["prepend_bos"] == "never"
    assert {field.name for field in dataclasses.fields(TokenRules)} <= set(recorded)


def test_invalid_rules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"outlier_factor=1.0 must exceed 1; outliers=keep"):
        TokenRules(outlier_factor=1.0)
    no_bos = Tokenizer(tiny_tokenizer())
    no_bos.bos = None
    with pytest.raises(ValueError, match="no BOS token"):
        TokenRules(prepend_bos="always").bos_of(no_bos)
