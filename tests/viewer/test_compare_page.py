"""Two dictionaries side by side: counterparts, latents without one, pictures, and links that keep it all."""

import json
import re

from playwright.sync_api import expect

from tests.viewer.synthetic import HOSTILE_LATENT, write_synthetic_site

BOTH = "#/composite/versus/atomic"


def rows(page):
    return page.locator(".list tbody tr")


def test_counterparts_and_what_has_none_are_counted(viewer):
    page = viewer.open("#/composite")
    page.get_by_role("link", name="Compare", exact=True).click()
    viewer.wait_for_hash("/composite/versus/atomic")
    expect(page.get_by_role("heading", level=1)).to_have_text("composite and atomic")
    summary = page.get_by_role("region", name="Agreement")
    expect(summary).to_contain_text("20 pairs with overlap ≥ 0.50")
    expect(summary).to_contain_text("Chance reaches 0.21 (99th percentile). SimF 0.42, alignment 0.57.")
    expect(summary.get_by_text("20 of 40 without a counterpart")).to_have_count(2)
    expect(summary).to_contain_text("Matching: synthetic: in reverse order.")
    expect(rows(page)).to_have_count(40)


def test_the_list_can_be_cut_and_ordered_and_the_address_keeps_it(viewer):
    page = viewer.open(BOTH)
    page.get_by_role("button", name="Without one").click()
    viewer.wait_for_hash("show=without")
    expect(rows(page)).to_have_count(20)
    page.get_by_role("combobox", name="Order").select_option("overlap")
    viewer.wait_for_hash("order=overlap")
    overlaps = rows(page).locator("td.value").all_inner_texts()
    assert overlaps[-1] == "–"
    numbers = [float(each) for each in overlaps[:-1]]
    assert numbers == sorted(numbers, reverse=True)
    assert max(numbers) < 0.5
    expect(rows(page).first).to_contain_text("none; matched with:")
    expect(rows(page).last).to_contain_text("none is left for it")
    page.reload()
    expect(rows(page)).to_have_count(20)


def test_the_other_side_has_the_same_pairs(viewer):
    page = viewer.open(f"{BOTH}?order=overlap")
    first = rows(page).first
    expect(first.locator(".number").first).to_have_text("0")
    expect(first.locator(".number").last).to_have_text("39")
    page.get_by_role("link", name="Swap sides").click()
    viewer.wait_for_hash("/atomic/versus/composite")
    expect(rows(page).first).to_be_visible()
    page.get_by_role("combobox", name="Order").select_option("overlap")
    expect(rows(page).first.locator(".number").first).to_have_text("39")
    expect(rows(page).first.locator(".number").last).to_have_text("0")


def test_both_pictures_turn_together(viewer):
    page = viewer.open(BOTH)
    page.get_by_role("button", name="Pictures of latent 2 and its counterpart 37").click()
    viewer.wait_for_hash("pair=2")
    expect(page.locator(".scene")).to_have_count(2)
    before = [viewer.picture(0), viewer.picture(1)]
    assert before[0] != before[1]
    page.evaluate("window.scrollTo(0, 0)")
    box = page.locator(".scene").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 180, box["y"] + 130)
    page.mouse.up()
    assert all(now != then for now, then in zip((viewer.picture(0), viewer.picture(1)), before, strict=True))


def test_rows_lead_to_both_latents_and_hostile_labels_are_plain_text(viewer):
    page = viewer.open(f"{BOTH}?order=latent")
    page.on("dialog", lambda dialog: viewer.watch.problems.append("a dialog opened"))
    expect(rows(page).nth(HOSTILE_LATENT)).to_contain_text("<img src=x onerror=alert(1)> ↔ ⟨U+202E⟩gnp.exe")
    assert page.locator("img, iframe, object").count() == 0
    links = rows(page).nth(2).locator("a").evaluate_all("all => all.map(each => each.hash)")
    assert links == ["#/composite/latent/2", "#/atomic/latent/37"]


def test_dictionaries_that_were_not_compared_say_so(tmp_path, viewer, serve, open_viewer):
    page = viewer.open("#/composite/versus/nothing")
    expect(page.locator(".problem")).to_contain_text(
        re.compile("These dictionaries were not compared.*from one hook point", re.DOTALL)
    )
    site = write_synthetic_site(tmp_path / "site", n_latents=6, n_points=60, n_dictionaries=2)
    manifest = json.loads((site / "data/site.json").read_text(encoding="utf-8"))
    del manifest["comparisons"]  # as in a site from before
    (site / "data/site.json").write_text(json.dumps(manifest), encoding="utf-8")
    old = open_viewer(serve(site)).open("#/composite")
    expect(old.locator(".list tbody tr").first).to_be_visible()
    expect(old.get_by_role("link", name="Compare", exact=True)).to_have_count(0)
