"""The notebook picture: one frame that holds everything, from weights alone, with tokens, or with rows."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import quadric
from quadric.geometry import latent_form
from quadric.model import Provenance
from quadric.viewer.notebook import MOST_ROWS, best_linear_direction, strongest_and_sampled
from tests.geometry.linear_dictionary import tokens, topk
from tests.viewer.browser import Viewer, Watch
from tests.viewer.rows import row_autoencoder, row_evidence, rows


@pytest.fixture(scope="module")
def autoencoder():
    return quadric.BilinearAutoencoder(
        d_model=16, n_latents=6, n_hidden=12, prior="composite", mixing_density=0.3, seed=0
    )


@pytest.fixture(scope="module")
def evidence(autoencoder):
    """With one point missing, and a token that tries to end the page."""
    x = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
    collected = quadric.collect_evidence(autoencoder, x + 0.5, points=30, progress=False)
    places = np.tile(np.arange(30), (6, 1))
    places[:, -1] = -1
    vocabulary = [b" the", b"</script><script>alert(1)</script>", b"\xff"]
    token_ids = np.random.default_rng(0).integers(0, 3, len(collected.text.token_ids)).astype(np.int32)
    signs, rest = np.array([1, -1] * 3, dtype=np.float32), np.full(6, 0.1, dtype=np.float32)
    return replace(
        collected,
        provenance=Provenance(model="smollm2"),
        points=replace(collected.points, places=places),
        text=replace(collected.text, token_ids=token_ids, vocabulary=vocabulary),
        calibration=replace(collected.calibration, signs=signs, rest=rest),
    )


def data_of(picture):
    (content,) = re.findall(r'id="data">(.*?)</script>', picture.page, re.DOTALL)
    return json.loads(content)


def test_the_eigenvalues_are_those_of_the_weights(autoencoder):
    data = data_of(quadric.show(autoencoder, 3))
    expected = quadric.geometry.spectrum(autoencoder, 3).eigenvalues
    assert data["eigenvalues"] == pytest.approx(expected.tolist())
    assert data["axis_quadratic"][: len(expected)] == pytest.approx(expected.tolist())
    assert data["axis_kind"] == [0] * len(expected) + [-1] * (8 - len(expected))
    assert (data["origin"], data["curvature"], data["constant"]) == ("the origin", 1.0, 0.0)
    assert data["total_weight"] == pytest.approx(expected.abs().sum().item())
    assert data["values"] == []


def test_a_picture_has_a_short_repr(autoencoder):
    assert re.fullmatch(
        r"Picture\('Latent 3', [\d,]+ characters; save\(path\) writes it as HTML\)", repr(quadric.show(autoencoder, 3))
    )


def test_points_come_from_the_evidence_without_those_that_are_missing(autoencoder, evidence):
    data = data_of(quadric.show(autoencoder, 3, evidence))
    assert len(data["values"]) == 29
    assert [len(axis) for axis in data["coordinates"]] == [29] * evidence.settings.n_axes
    words = [data["texts"][token] for token in data["tokens"]]
    expected = [evidence.text.vocabulary[token].decode(errors="replace") for token in evidence.text.token_ids[:29]]
    assert words == expected
    assert data["note"] == "29 tokens; strong activations are over-represented."
    assert (data["origin"], data["unit"]) == ("the mean token", "token")
    assert data["measured_curvature"] == pytest.approx(evidence.statistics.curvature[3])
    assert data["rest"] == pytest.approx(0.1)
    assert len(data["linear"]) == 29
    about_mean = quadric.geometry.read(autoencoder, 3, evidence.calibration.tokens_centre())
    assert data["constant"] == pytest.approx(-about_mean.constant)  # the evidence shows −z of latent 3
    assert data["curvature"] == pytest.approx(about_mean.curvature)


def test_evidence_of_rows_is_called_rows():
    data = data_of(quadric.show(row_autoencoder(), 3, row_evidence()))
    assert data["note"] == "150 rows; strong activations are over-represented."
    assert all("no. " in text for text in data["texts"])


def test_a_direction_is_drawn_with_its_rows_on_its_plane():
    ae, x = topk(), tokens(300)
    data = data_of(quadric.show(ae, 4, x))
    assert data["is_linear"]
    assert (data["eigenvalues"], data["curvature"], data["rest"]) == ([], 0, 0)
    assert data["axis_kind"][:3] == [1, 2, 3]
    chosen = [int(text.removeprefix("row ")) for text in data["texts"]]
    z = ae.encode(ae.prepare(x))[chosen, 4].detach().numpy()
    np.testing.assert_allclose(data["values"], z, atol=1e-4)
    plane = np.array(data["coordinates"]).T @ data["axis_linear"] + data["constant"]
    np.testing.assert_allclose(plane[z > 0], z[z > 0], atol=1e-3)
    alone = data_of(quadric.show(ae, 4))
    assert (alone["origin"], alone["axis_kind"][:2], alone["values"]) == ("the decoder's bias", [1, 2], [])
    evidence = quadric.collect_evidence(ae, x, points=50, progress=False)
    shown = data_of(quadric.show(ae, 4, evidence))
    assert shown["is_linear"]
    assert shown["constant"] == pytest.approx(data["constant"], abs=1e-5)
    assert not data_of(quadric.show(row_autoencoder(), 4, rows()))["is_linear"]


@pytest.mark.parametrize("lens", ["paper", "affine"])
def test_rows_of_a_tensor_are_drawn_where_the_form_puts_them(lens):
    """z = Σ(axis_quadratic ξ² + axis_linear ξ) + constant with the coordinates drawn, exactly through a lens."""
    x, ae = rows(), row_autoencoder(lens)
    data = data_of(quadric.show(ae, 4, x))
    chosen = [int(text.removeprefix("row ")) for text in data["texts"]]
    assert sorted(chosen) == list(range(len(x)))
    z = ae.encode(torch.nn.functional.normalize(x, dim=1)).detach()[:, 4]
    np.testing.assert_allclose(data["values"], z[chosen], atol=1e-4)
    along = np.array(data["coordinates"])
    drawn = np.array(data["axis_quadratic"]) @ along**2 + np.array(data["axis_linear"]) @ along + data["constant"]
    if lens == "affine":
        np.testing.assert_allclose(drawn, data["values"], atol=1e-3)
    else:  # m·u, which plays the part of the constant, differs from row to row
        assert np.corrcoef(drawn, data["values"])[0, 1] > 0.6
    sizes = np.abs(np.array(data["values"]) - data["rest"])
    assert (np.diff(sizes) <= 1e-5).all()
    assert data["reach"] == pytest.approx(z.abs().max().item(), rel=1e-4)
    assert data["note"] == "All 400 rows, scaled to unit length."


def test_the_linear_control_of_rows_predicts_z_at_least_as_well_as_any_axis():
    x = rows()
    data = data_of(quadric.show(row_autoencoder("affine"), 4, x))
    z = np.array(data["values"])
    alone = [abs(np.corrcoef(axis, z)[0, 1]) for axis in data["coordinates"] if np.ptp(axis) > 0]
    assert abs(np.corrcoef(data["linear"], z)[0, 1]) >= max(alone) - 0.01


def test_a_z_that_does_not_vary_has_no_linear_direction():
    v = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert best_linear_direction(v, torch.full((20,), 0.3)).tolist() == [0.0] * 4


def test_the_axes_of_rows_agree_with_those_of_evidence():
    """Axes have an arbitrary sign; both pictures must choose the same one."""
    ae, evidence = row_autoencoder(), row_evidence()
    drawn = data_of(quadric.show(ae, 4, rows()))
    by_row = {text: np.array(drawn["coordinates"])[:, i] for i, text in enumerate(drawn["texts"])}
    for place, coordinates in zip(evidence.points.places[4], evidence.points.coordinates[4], strict=True):
        here = by_row[f"row {place}"]
        np.testing.assert_allclose(here[: len(coordinates)], coordinates, atol=1e-4)


def test_many_rows_are_cut_to_the_strongest_and_a_seeded_sample(autoencoder):
    x = torch.randn(12_000, 16, generator=torch.Generator().manual_seed(3))
    data = data_of(quadric.show(autoencoder, 3, x))
    assert len(data["values"]) == MOST_ROWS
    assert data["note"].startswith(
        "5,000 of 12,000 rows, scaled to unit length: the 2,500 with the largest |z − rest| and 2,500"
    )
    z = latent_form(autoencoder, 3)(torch.nn.functional.normalize(x, dim=1))
    strongest = (z - z.median()).abs().sort(descending=True).values[:2_500]
    np.testing.assert_allclose(np.abs(np.array(data["values"][:2_500]) - data["rest"]), strongest, atol=2e-5)
    assert quadric.show(autoencoder, 3, x).page == quadric.show(autoencoder, 3, x).page


def test_the_sample_is_of_the_rest_only_and_has_no_duplicates():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    chosen = strongest_and_sampled(values, 100, seed=0)
    assert len(set(chosen.tolist())) == 100
    assert set(chosen[:50].tolist()) == set(values.abs().argsort(descending=True)[:50].tolist())
    assert chosen.tolist() != strongest_and_sampled(values, 100, seed=1).tolist()
    assert (values[chosen].abs().diff() <= 0).all()


def test_a_form_is_drawn_alone_and_with_rows(autoencoder):
    form = latent_form(autoencoder, 1) - latent_form(autoencoder, 2)
    expected = form.eigenpairs().eigenvalues.tolist()
    alone = data_of(quadric.show(form))
    assert alone["eigenvalues"] == pytest.approx(expected)
    assert (alone["title"], alone["values"]) == ("Form", [])
    x = torch.randn(20, 16, generator=torch.Generator().manual_seed(3))
    with_rows = data_of(quadric.show(form, data=x))
    chosen = [int(text.removeprefix("row ")) for text in with_rows["texts"]]
    z = form(torch.nn.functional.normalize(x, dim=1))
    np.testing.assert_allclose(with_rows["values"], z[chosen], atol=1e-5)


@pytest.mark.parametrize(
    ("make", "problem", "message"),
    [
        (lambda ae, form, evidence: (ae, 1, torch.randn(4, 9)), ValueError, r"shape \(4, 9\); expected \(n, 16\)"),
        (lambda ae, form, evidence: (ae, 1, torch.zeros(4, 16)), ValueError, "token 0 is all zero"),
        # beartype refuses it before the function does, wherever types are checked
        (lambda ae, form, evidence: (ae, 1, [1.0]), TypeError, "data is list; give Evidence|parameter data="),
        (lambda ae, form, evidence: (ae,), ValueError, "latent=None is not one of the 6; give 0 to 5"),
        (lambda ae, form, evidence: (form, None, evidence), ValueError, "points of latents, not of forms"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_remedy(autoencoder, evidence, make, problem, message):
    with pytest.raises(problem, match=message):
        quadric.show(*make(autoencoder, latent_form(autoencoder, 0), evidence))


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


@pytest.mark.parametrize("points", ["none", "tokens", "rows"])
def test_a_notebook_draws_it_in_its_own_frame(autoencoder, evidence, open_viewer, points):
    viewer = open_viewer("about:")
    assert isinstance(viewer, Viewer)
    assert isinstance(viewer.watch, Watch)
    page = viewer.page
    given = {"none": None, "tokens": evidence, "rows": torch.randn(50, 16, generator=torch.Generator().manual_seed(0))}
    picture = quadric.show(autoencoder, 3, given[points])
    page.set_content(f"<!doctype html><title>notebook</title>{picture._repr_html_()}")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Latent 3")).to_be_visible()
    expect(frame.locator(".bar").first).to_be_visible()
    frame.get_by_role("button", name="Axes").click()
    before = page.locator("iframe").screenshot()
    frame.get_by_role("button", name="Surface").click()
    assert page.locator("iframe").screenshot() != before
    expect(frame.get_by_role("button", name="Random control")).to_have_count(int(points != "none"))


def test_the_frame_is_sandboxed_and_its_source_escaped(autoencoder):
    shown = quadric.show(autoencoder, 0)._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    (source,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(source) == quadric.show(autoencoder, 0).page
