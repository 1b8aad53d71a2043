"""The notebook's picture: one frame that holds everything, from weights alone or with tokens."""

import html
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from playwright.sync_api import expect

import quadric
from quadric.site.notebook import PointsOfLatents
from tests.site.browser import Viewer, Watch


@pytest.fixture(scope="module")
def autoencoder():
    return quadric.BilinearAutoencoder(
        d_model=16, n_latents=6, n_hidden=12, prior="composite", mixing_density=0.3, seed=0
    )


@pytest.fixture(scope="module")
def evidence():
    """The shape of quadric.evidence.Evidence, with one point missing and a token that tries to end the page."""
    generator = np.random.default_rng(0)
    places = np.tile(np.arange(30), (6, 1))
    places[:, -1] = -1
    points = SimpleNamespace(
        places=places,
        values=-np.sort(-generator.random((6, 30))).astype(np.float32),
        coordinates=generator.normal(0, 0.3, (6, 30, 8)).astype(np.float32),
        control=generator.normal(0, 0.3, (6, 30, 3)).astype(np.float32),
    )
    vocabulary = [b" the", b"</script><script>alert(1)</script>", b"\xff"]
    text = SimpleNamespace(token_ids=generator.integers(0, 3, 30).astype(np.int32), vocabulary=vocabulary)
    return SimpleNamespace(points=points, text=text)


def data_of(picture):
    (content,) = re.findall(r'id="data">(.*?)</script>', picture.page, re.DOTALL)
    return json.loads(content)


def test_the_eigenvalues_are_those_of_the_weights(autoencoder):
    data = data_of(quadric.show(autoencoder, 3))
    expected = quadric.geometry.spectrum(autoencoder, 3).eigenvalues
    assert data["eigenvalues"] == expected.tolist()
    assert data["total_weight"] == pytest.approx(expected.abs().sum().item())
    assert data["values"] == []


def test_points_come_from_the_evidence_without_those_that_are_missing(autoencoder, evidence):
    assert isinstance(evidence, PointsOfLatents)
    data = data_of(quadric.show(autoencoder, 3, evidence))
    assert len(data["values"]) == 29
    assert [len(axis) for axis in data["coordinates"]] == [29] * 8
    words = [data["texts"][token] for token in data["tokens"]]
    expected = [evidence.text.vocabulary[token].decode(errors="replace") for token in evidence.text.token_ids[:29]]
    assert words == expected


def test_a_latent_that_is_not_there_is_refused(autoencoder):
    with pytest.raises(ValueError, match="latent=6 is not one of the 6"):
        quadric.show(autoencoder, 6)


def test_no_token_can_end_the_page(autoencoder, evidence):
    page = quadric.show(autoencoder, 3, evidence).page
    assert page.count("</script>") == 2


def test_the_picture_is_kept_as_a_file(autoencoder, tmp_path):
    picture = quadric.show(autoencoder, 0)
    picture.save(tmp_path / "latent.html")
    assert (tmp_path / "latent.html").read_text(encoding="utf-8") == picture.page


@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_notebook_draws_it_in_its_own_frame(autoencoder, evidence, open_viewer, with_tokens):
    viewer = open_viewer("about:")
    assert isinstance(viewer, Viewer)
    assert isinstance(viewer.watch, Watch)
    page = viewer.page
    picture = quadric.show(autoencoder, 3, evidence if with_tokens else None)
    page.set_content(f"<!doctype html><title>notebook</title>{picture._repr_html_()}")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Latent 3")).to_be_visible()
    expect(frame.locator(".bar").first).to_be_visible()
    frame.get_by_role("button", name="Axes").click()
    before = page.locator("iframe").screenshot()
    frame.get_by_role("button", name="Surface").click()
    assert page.locator("iframe").screenshot() != before
    expect(frame.get_by_role("button", name="Random control")).to_have_count(int(with_tokens))


def test_the_frame_is_sandboxed_and_its_source_escaped(autoencoder):
    shown = quadric.show(autoencoder, 0)._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    (source,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(source) == quadric.show(autoencoder, 0).page
