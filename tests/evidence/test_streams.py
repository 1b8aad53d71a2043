"""The stream behind an autoencoder can be opened again from its provenance alone."""

import dataclasses
from pathlib import Path

import pytest

from quadric.data import ActivationConfig, HarvestConfig, TokenRules, describe, harvest_to_folder
from quadric.data.corpus import CorpusConfig
from quadric.data.provenance import config_from
from quadric.evidence import open_cached, open_live
from quadric.model import Provenance
from tests.data.tiny import save_tiny


def test_a_config_made_from_provenance_has_that_provenance() -> None:
    config = ActivationConfig(
        model="smollm2",
        hook_points="blocks.7.hook_resid_post",
        corpus=CorpusConfig(seed=3, block_length=128, packing="separate", split="held_out", shuffle_buffer=99),
        rules=TokenRules(outliers="clip", outlier_factor=7.0, special_tokens="keep"),
    )
    recorded = describe(config, device="cpu")
    again = config_from(recorded.for_hook_point(recorded.hook_points[0]))
    assert describe(again, device="cpu") == recorded


def test_an_autoencoder_of_no_language_model_is_refused() -> None:
    with pytest.raises(ValueError, match="does not record its model, hook_point"):
        open_live(Provenance(corpus="planted manifolds"), model=None, corpus=None, batch_tokens=10, device="cpu")


def test_a_cache_of_another_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("some words " * 60)
    corpus = CorpusConfig(source=str(tmp_path / "text.txt"), block_length=16, held_out_fraction=0.0)
    config = ActivationConfig(model=str(save_tiny(tmp_path / "tiny")), hook_points="layers.1", corpus=corpus)
    harvest_to_folder(config, HarvestConfig(tokens=50), tmp_path / "cache", device="cpu")
    own = describe(config, device="cpu").for_hook_point("resid_pre.1")
    assert open_cached(own, tmp_path / "cache", 10).hook_points == ("resid_pre.1",)
    with pytest.raises(ValueError, match=r"holds resid_pre\.1, and the autoencoder reads resid_pre\.2"):
        open_cached(dataclasses.replace(own, hook_point="resid_pre.2"), tmp_path / "cache", 10)
