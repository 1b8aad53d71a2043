"""`quadric view` opens the page that was asked for."""

from pathlib import Path

import pytest

from quadric import BilinearAutoencoder
from quadric.cli import main


def test_a_wrong_name_is_refused_with_the_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        made = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=seed)
        made.save_pretrained(tmp_path / f"run/autoencoders/seed{seed}")
    assert main(["view", str(tmp_path / "run"), "--name", "third", "--no-open"]) == 1
    assert "holds 2 autoencoders: seed0, seed1, none of them named 'third'" in capsys.readouterr().err
