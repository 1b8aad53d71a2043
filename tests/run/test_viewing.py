"""`quadric.view` serves a site on the loopback address until it is closed."""

import json
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from quadric import BilinearAutoencoder, collect_evidence, export_site, show
from quadric.evidence import Evidence
from quadric.run.viewing import route, view
from tests.viewer.synthetic import write_synthetic_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_synthetic_site(tmp_path_factory.mktemp("viewing") / "site", n_latents=8, n_points=20)


def get(address: str) -> bytes:
    with urllib.request.urlopen(address.partition("#")[0], timeout=10) as response:
        return response.read()


def test_a_site_is_served_until_it_is_closed(site: Path) -> None:
    with view(site, port=0, open_browser=False, wait=False) as viewer:
        assert repr(viewer) == f"Viewer({viewer.address})"
        assert get(viewer.address) == (site / "index.html").read_bytes()
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(viewer.address)


def test_an_interrupt_while_the_address_is_printed_stops_the_server(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(line: str, flush: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quadric.run.viewing.print", interrupted, raising=False)
    viewer = view(site, port=0, open_browser=False)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(viewer.address, timeout=5)


def test_the_browser_opens_the_page_of_the_latent(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with view(site, latent=3, port=0, wait=False) as viewer:
        assert opened == [viewer.address]
    assert viewer.address.endswith("#/latent/3")


def test_contradictory_arguments_are_refused(site: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="latent=-1 is negative"):
        view(site, latent=-1)
    with pytest.raises(ValueError, match="give its evidence as well"):
        view(BilinearAutoencoder(d_model=4, n_latents=8))
    with pytest.raises(ValueError, match="evidence= is for an autoencoder"):
        view(site, object.__new__(Evidence))


@pytest.fixture
def named_site(tmp_path: Path) -> Path:
    (tmp_path / "site/data").mkdir(parents=True)
    manifest = {"dictionaries": [{"name": "first"}, {"name": "a/b ü"}]}
    (tmp_path / "site/data/site.json").write_text(json.dumps(manifest))
    return tmp_path / "site"


@pytest.mark.parametrize(
    ("name", "latent", "expected"),
    [
        (None, None, ""),
        (None, 17, "#/latent/17"),
        ("first", None, "#/first"),
        ("a/b ü", 3, "#/a%2Fb%20%C3%BC/latent/3"),
    ],
)
def test_the_address_names_autoencoder_and_latent(
    named_site: Path, name: str | None, latent: int | None, expected: str
) -> None:
    assert route(named_site, name, latent) == expected


def test_a_name_that_the_site_does_not_have_is_refused_with_the_choices(named_site: Path) -> None:
    with pytest.raises(ValueError, match=r"name='third' is not in the site .*; choose from: first, a/b ü"):
        route(named_site, "third", None)


def test_the_site_of_weights_that_were_trained_further_is_not_served(tmp_path: Path) -> None:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    before = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=0)
    evidence = collect_evidence(before, x, points=5, progress=False)
    folder = tmp_path / "run/autoencoders/mine"
    before.save_pretrained(folder)
    export_site(before, evidence, tmp_path / "run/site", name="mine", with_map=False)
    view(tmp_path / "run", port=0, open_browser=False, wait=False).close()
    BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=1).save_pretrained(folder)
    for target in (tmp_path / "run", tmp_path / "run/site"):
        with pytest.raises(ValueError, match=r"site' is about other weights .*; make it again: quadric site .*run"):
            view(target, port=0, open_browser=False, wait=False).close()
    (tmp_path / "run/site/quadric-files.json").unlink()  # as an earlier Quadric wrote it
    with pytest.warns(UserWarning, match="does not say which weights it shows"):
        view(tmp_path / "run", port=0, open_browser=False, wait=False).close()


def test_evidence_of_another_dictionary_of_the_same_size_is_refused(tmp_path: Path) -> None:
    one, other = (BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", seed=seed) for seed in (0, 1))
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    evidence = collect_evidence(other, x, points=5, progress=False)
    uses: list[Callable[[], object]] = [
        lambda: view(one, evidence, port=0, open_browser=False, wait=False).close(),
        lambda: export_site(one, evidence, tmp_path / "site", with_map=False),
        lambda: show(one, 0, evidence),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"the evidence is about other weights .*; collect it again"):
            use()
    assert not (tmp_path / "site").exists()
