"""Clusters on a latent's page: colours, legend and stability, and what is said where there are none."""

import re

import pytest
from playwright.sync_api import expect

from tests.viewer.synthetic import GROUPS, HOSTILE_LATENT, SEARCHED

CLUSTERS, NONE, CHANCE = "#/composite/latent/3", "#/composite/latent/2", "#/composite/latent/5"


def panel(page):
    return page.get_by_role("region", name="Clusters", exact=True)


def test_every_cluster_has_its_name_size_and_stability(viewer):
    page = viewer.open(CLUSTERS)
    lines = panel(page).locator("li")
    words = GROUPS["states"][:9]
    expect(lines).to_have_count(len(words))
    expect(lines.first).to_contain_text(re.compile(rf"{words[0]}.*20 tokens.*stability 0\.99", re.DOTALL))
    expect(panel(page)).to_contain_text("The controls have at most 2 stable groups. 3 further groups did not survive")
    panel(page).get_by_text("How clusters are found").click()
    expect(panel(page)).to_contain_text("were searched: by the synthetic words themselves.")


def test_colours_and_legend_follow_and_the_address_keeps_them(viewer):
    page = viewer.open(CLUSTERS)
    before = viewer.picture()
    panel(page).get_by_role("button", name="Colour by cluster").click()
    viewer.wait_for_hash("colour=cluster")
    assert viewer.picture() != before
    names = page.locator(".legend ul").first.locator("li").all_inner_texts()
    assert names[0] == f"{GROUPS['states'][0]} (0.99)"
    assert len(names) == 9  # eight hues, and grey for the ninth cluster and the rest
    assert names[-1] == "any other cluster, or none"
    panel(page).get_by_role("button", name="Colour by cluster").click()
    assert "colour" not in viewer.hash()


def test_a_cluster_in_focus_shows_its_points_alone(viewer):
    page = viewer.open(CLUSTERS)
    before = viewer.picture()
    first = panel(page).locator("li button").first
    first.focus()  # as with the pointer, which would not stay where it is while the picture is taken
    alone = viewer.picture()
    assert alone != before
    first.blur()
    assert viewer.picture() != alone
    first.click()
    viewer.wait_for_hash("colour=cluster")


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (NONE, "No clusters: no group of tokens survives resampling."),
        (CHANCE, "No clusters: 2 stable groups, but a control that has no structure has as many."),
        (f"#/composite/latent/{SEARCHED}", f"Not searched: only the first {SEARCHED} latents were searched."),
    ],
)
def test_a_latent_without_clusters_says_why_and_offers_no_colours(viewer, route, said):
    page = viewer.open(route)
    expect(panel(page)).to_contain_text(said)
    expect(panel(page).get_by_role("button")).to_have_count(0)
    options = page.get_by_role("combobox", name="Colour", exact=True).locator("option").all_inner_texts()
    assert options == ["activation", "sign", "token", "position"]


def test_hostile_names_are_plain_text(viewer):
    page = viewer.open(f"#/composite/latent/{HOSTILE_LATENT}?colour=cluster")
    page.on("dialog", lambda dialog: viewer.watch.problems.append("a dialog opened"))
    names = panel(page).locator(".label").all_inner_texts()
    assert names == ["<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "⟨U+202E⟩gnp.exe"]
    expect(page.locator(".legend")).to_contain_text("<img src=x onerror=alert(1)> (0.99)")
    assert page.locator("img, iframe, object").count() == 0
