"""Pages of a linear dictionary: marked linear, drawn as half-spaces, and compared with a bilinear one."""

import re

import pytest
import torch
from playwright.sync_api import expect

import quadric
from quadric.viewer.export import SiteInput, build_site
from tests.geometry.linear_dictionary import N_LATENTS, tokens, topk
from tests.viewer.browser import PHONE, accessibility_faults, fits_a_phone

pytestmark = pytest.mark.slow  # a real browser
LATENT = "#/topk/latent/4"


def site_input(name: str, autoencoder) -> SiteInput:
    x = tokens(600)
    texts = [f"row {number % 40}" for number in range(len(x))]
    evidence = quadric.collect_evidence(autoencoder, x, texts=texts, points=120, progress=False)
    return SiteInput(name=name, autoencoder=autoencoder, evidence=evidence, source="runs/linear")


@pytest.fixture(scope="module")
def linear_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linear") / "site"
    x = torch.nn.functional.normalize(tokens(600), dim=1)
    bilinear = quadric.fit(x, n_latents=8, steps=4, seed=0, progress=False)
    inputs = [site_input("topk", topk()), site_input("bilinear", bilinear)]
    build_site(inputs, folder, title="Directions", with_map=False)
    return folder


@pytest.fixture
def viewer(linear_site, serve, open_viewer):
    return open_viewer(serve(linear_site))


def test_a_latent_is_marked_linear_and_its_axes_are_named(viewer):
    page = viewer.open(LATENT)
    viewer.picture()
    expect(page.locator(".crumb .chip")).to_have_text("linear")
    expect(page.locator(".crumb")).to_contain_text("half-space")
    assert "gate" in page.locator(".crumb .chip").get_attribute("title")
    statistics = page.locator(".statistics dt").all_inner_texts()
    assert statistics == ["Density", "Firing share", "Importance", "Mean square"]
    axes = page.get_by_role("region", name="Axes", exact=True)
    expect(axes).to_contain_text("A direction has no eigenvalues")
    expect(axes.get_by_role("button", name=re.compile("^decoder, slope .*, on X"))).to_be_visible()
    expect(axes.get_by_role("button", name=re.compile("^rest of encoder, slope .*, on Y"))).to_be_visible()
    expect(axes.get_by_role("button", name="principal component 1, on Z")).to_be_visible()
    expect(page.locator(".contexts h3")).to_have_text(["Positive, z > 0"])
    expect(page.locator(".neighbour-note")).to_contain_text("squared cosine")


def test_its_surface_is_a_plane_that_holds_wherever_it_fires(viewer):
    page = viewer.open(f"{LATENT}?surface=0.2")
    viewer.picture()
    said = page.locator(".surface-control p")
    expect(said).to_contain_text("Plane: z before its gate")
    expect(said).to_contain_text(re.compile(r"accounts for (100|> 99) % of the variance"))
    assert float(page.locator(".surface-control input").get_attribute("min")) == 0
    elsewhere = viewer.open(f"{LATENT}?surface=0.2&axes=0,2,3").locator(".surface-control p")
    expect(elsewhere).to_contain_text("Not all that the latent reads is among the axes shown")


def test_the_linear_control_says_what_to_expect_of_a_direction(viewer):
    page = viewer.open(f"{LATENT}?control=linear")
    expect(page.locator(".caution")).to_contain_text("what differs is its gate, not a shape")


def test_the_map_and_the_list_show_what_directions_have(viewer):
    page = viewer.open("#/topk")
    expect(page.locator(".map-title")).to_contain_text(f"{N_LATENTS} linear latents (topk)")
    expect(page.locator(".list h2 .chip")).to_have_text("linear")
    names = page.locator(".list thead button").all_inner_texts()
    assert [name.split(" ")[0] for name in names] == ["Latent", "Shape", "Density", "Firing", "Importance", "Mean"]
    offered = page.get_by_label("X", exact=True).locator("option").all_inner_texts()
    assert "effective rank" not in offered
    assert "importance" in offered
    expect(page.get_by_label("X", exact=True)).to_have_value("importance")
    expect(page.get_by_role("complementary", name="Latents worth a look")).not_to_contain_text("Curved")
    expect(page.locator(".quality")).to_contain_text("latents are directions")
    expect(page.locator(".dictionary option")).to_have_text(["topk · linear", "bilinear"])


def test_a_bilinear_dictionary_beside_it_is_shown_as_ever(viewer):
    page = viewer.open("#/bilinear")
    expect(page.locator(".map-title")).to_contain_text("8 latents, composite prior")
    assert page.locator(".list h2 .chip").count() == 0
    expect(page.get_by_label("X", exact=True)).to_have_value("measured_curvature")


def test_the_two_are_compared_and_a_pair_is_drawn_side_by_side(viewer):
    page = viewer.open("#/topk/versus/bilinear?pair=2")
    expect(page.locator(".compare-summary")).to_contain_text("linear (topk)")
    expect(page.locator(".method")).to_contain_text("forms of d·v alone")
    expect(page.locator("tbody tr")).to_have_count(N_LATENTS)


@pytest.mark.parametrize("route", [f"{LATENT}?surface=0.2", "#/topk", "#/topk/versus/bilinear"])
def test_a_phone_shows_everything_without_scrolling_sideways(linear_site, serve, open_viewer, route):
    viewer = open_viewer(serve(linear_site), **PHONE)
    page = viewer.open(route)
    page.wait_for_selector("main")
    assert fits_a_phone(page)


@pytest.mark.parametrize("route", [f"{LATENT}?surface=0.2", "#/topk"])
def test_pages_are_accessible(viewer, route):
    page = viewer.open(route)
    viewer.picture()
    assert accessibility_faults(page) == []
