"""`quadric view` opens the page that was asked for."""

import json
from pathlib import Path

import pytest

from quadric import BilinearAutoencoder
from quadric.cli import main
from quadric.cli.view import View


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site/data").mkdir(parents=True)
    manifest = {"dictionaries": [{"name": "first"}, {"name": "a/b ü"}]}
    (tmp_path / "site/data/site.json").write_text(json.dumps(manifest))
    return tmp_path / "site"


@pytest.mark.parametrize(
    ("name", "latent", "route"),
    [
        (None, None, ""),
        (None, 17, "#/latent/17"),
        ("first", None, "#/first"),
        ("a/b ü", 3, "#/a%2Fb%20%C3%BC/latent/3"),
    ],
)
def test_the_address_names_autoencoder_and_latent(site: Path, name: str | None, latent: int | None, route: str) -> None:
    assert View(site=site, name=name, latent=latent)._route(site) == route


def test_a_wrong_name_is_refused_with_the_choices(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"name='third' is not in the site .*; choose from: first, a/b ü"):
        View(site=site, name="third")._route(site)
    for seed in (0, 1):
        made = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=seed)
        made.save_pretrained(tmp_path / f"run/autoencoders/seed{seed}")
    assert main(["view", str(tmp_path / "run"), "--name", "third", "--no-open"]) == 1
    assert "holds 2 autoencoders: seed0, seed1, none of them named 'third'" in capsys.readouterr().err
