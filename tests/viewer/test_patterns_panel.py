"""Example geometries: the list on the landing page, the panel and chips of a latent."""

import re

from playwright.sync_api import expect

from tests.viewer.browser import PHONE, fits_a_phone
from tests.viewer.synthetic import GROUPS, HOSTILE_LATENT, SEARCHED

CONE, CLUSTERS, BOTH = "#/composite/latent/2", "#/composite/latent/3", "#/composite/latent/14"


def panel(page):
    return page.get_by_role("region", name="Example geometries")


def test_the_landing_page_links_to_the_best_examples(viewer):
    page = viewer.open("#/composite")
    kinds = panel(page).locator(".geometry-kinds > div")
    expect(kinds).to_have_count(4)
    expect(kinds.nth(0)).to_contain_text(re.compile(r"cone.*\d+ of 38", re.DOTALL))
    expect(kinds.nth(2)).to_contain_text("No latent passes.")
    expect(kinds.nth(2).locator("a")).to_have_count(0)
    expect(kinds.nth(0).locator("a").first).to_contain_text(re.compile(r"2.*2\.5×", re.DOTALL))
    kinds.nth(0).locator("a").first.click()
    viewer.wait_for_hash("latent/2")
    expect(panel(page)).to_contain_text("2.50 times as long as wide, p = 0.004")


def test_a_pattern_that_its_control_shows_as_often_says_so(viewer):
    page = viewer.open("#/composite")
    kinds = panel(page).locator(".geometry-kinds > div")
    expect(kinds.nth(0).locator(".doubt")).to_have_text("Cannot be told from heavy tails.")
    expect(kinds.nth(0)).to_contain_text("7 of 10heavy tails")
    expect(kinds.nth(1)).to_contain_text("More frequent than in every control.")
    expect(kinds.nth(1).locator(".doubt")).to_have_count(0)
    expect(kinds.nth(3).locator(".doubt")).to_have_text("Cannot be told from untrained.")
    page = viewer.open(CONE)
    expect(panel(page).locator(".doubt")).to_have_text("Cannot be told from heavy tails.")
    expect(page.locator(".title .chip.doubtful")).to_have_text("cone")
    page = viewer.open(CLUSTERS)
    expect(page.locator(".title .chip.pattern")).to_have_text("cluster")
    expect(page.locator(".title .chip.doubtful")).to_have_count(0)


def test_a_latent_lists_what_it_shows_and_what_it_does_not(viewer):
    page = viewer.open(BOTH)
    shown = panel(page).locator(".geometry-kinds > li")
    expect(shown).to_have_count(2)
    expect(shown.nth(1)).to_contain_text("A neighbour explains 93 % of the sign, p < 0.0001")
    expect(panel(page)).to_contain_text("Not found: cluster (0 clusters), interpolation (stretch 1.25, p = 0.31).")
    panel(page).get_by_text("How patterns are tested").click()
    expect(panel(page)).to_contain_text("The first 38 latents were tested, by making them up.")


def test_a_latent_that_was_not_tested_says_so(viewer):
    page = viewer.open(f"#/composite/latent/{SEARCHED}")
    expect(panel(page)).to_contain_text(f"Not tested: only the first {SEARCHED} latents were tested.")
    expect(panel(page).locator(".geometry-kinds")).to_have_count(0)


def test_hostile_tokens_are_plain_text(viewer):
    page = viewer.open(f"#/composite/latent/{HOSTILE_LATENT}")
    page.on("dialog", lambda dialog: viewer.watch.problems.append("a dialog opened"))
    expect(panel(page)).to_contain_text("<img src=x onerror=alert(1)>; <script>alert(2)</script>; ⟨U+202E⟩gnp.exe")
    assert page.locator("img, iframe, object").count() == 0


def test_a_narrow_screen_shows_one_kind_below_the_other(open_viewer, address):
    page = open_viewer(address, **PHONE).open("#/composite")
    boxes = [each.bounding_box() for each in panel(page).locator(".geometry-kinds > div").all()]
    assert len({round(box["x"]) for box in boxes}) == 1
    assert fits_a_phone(page)
    expect(panel(page)).to_contain_text(GROUPS["states"][0])
