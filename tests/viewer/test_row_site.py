"""A site of a user's own rows, without a model, corpus or hook point: every page says row instead of token."""

import re

import pytest
from playwright.sync_api import expect

from quadric.viewer.export import build_site
from tests.viewer.browser import PHONE, accessibility_faults, fits_a_phone
from tests.viewer.rows import N_ROWS, row_site_input

LATENT = "#/flowers/latent/4"
UNKNOWN_VALUE = re.compile(r"\b(undefined|null|none|nan)\b", re.IGNORECASE)
HIDDEN_TEXTS = """[...document.querySelectorAll("*")]
    .flatMap((each) => ["title", "aria-label", "placeholder"].map((name) => each.getAttribute(name)))
    .filter((text) => text !== null)"""


@pytest.fixture(scope="module")
def row_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "site"
    build_site([row_site_input()], folder, title="Flowers", with_map=False)
    return folder


@pytest.fixture
def viewer(row_site, serve, open_viewer):
    return open_viewer(serve(row_site), permissions=["clipboard-read", "clipboard-write"])


def everything_said(page):
    """All text of the page, with the texts that appear on hover and those read aloud."""
    return "\n".join([page.locator("body").inner_text(), *page.evaluate(HIDDEN_TEXTS)])


@pytest.mark.parametrize(
    "route",
    ["", LATENT, f"{LATENT}?surface=0.1&pins=0,3&versus=2&colour=token&control=random", f"{LATENT}?colour=position"],
)
def test_no_page_mentions_tokens_or_shows_what_is_unknown(viewer, route):
    page = viewer.open(route)
    if route:
        page.get_by_text("The same points as a table").click()
    viewer.picture()
    said = everything_said(page)
    assert "token" not in said.lower()
    assert UNKNOWN_VALUE.search(said) is None
    assert "row" in said


def test_the_map_describes_the_data(viewer):
    page = viewer.open()
    expect(page.locator(".map-title")).to_contain_text("10 latents, composite prior · 400 rows of 6 numbers")
    expect(page.get_by_role("button", name="UMAP")).to_be_disabled()


def test_the_badge_and_the_strongest_rows_name_rows(viewer):
    page = viewer.open(LATENT)
    expect(page.locator(".badge")).to_contain_text(re.compile(rf"\d+ of {N_ROWS} rows, drawn with weight"))
    expect(page.get_by_role("heading", name="Strongest rows")).to_be_visible()
    lines = page.locator(".contexts mark").all_inner_texts()
    assert lines
    assert all(
        re.fullmatch(r"(setosa|versicolor|virginica|<b>unknown</b>)(, measured .*)? no\. \d+", line) for line in lines
    )


def test_a_tooltip_and_a_pin_give_the_number_of_the_row(viewer):
    page = viewer.open(LATENT)
    viewer.picture()
    viewer.sweep(".tooltip")
    text = page.locator(".tooltip").inner_text()
    number = re.search(r"no\. (\d+)", text)[1]
    assert f"row {number}" in text.splitlines()
    page.locator(".context").first.click()
    expect(page.locator(".pins li")).to_contain_text(re.compile(r"no\. (\d+).*row \1", re.DOTALL))


def test_colours_by_text_and_by_number_have_their_own_names(viewer):
    page = viewer.open(LATENT)
    colour = page.get_by_role("combobox", name="Colour", exact=True)
    assert colour.locator("option").all_inner_texts() == ["activation", "sign", "row text", "row number"]
    colour.select_option("position")
    expect(page.locator(".legend")).to_contain_text("first row")
    by_number = viewer.picture()
    colour.select_option("token")
    expect(page.locator(".legend")).to_contain_text("any other row")
    assert viewer.picture() != by_number


def test_the_snippet_of_an_unsaved_autoencoder_runs_once_it_is_saved(viewer, tmp_path, monkeypatch, capsys):
    page = viewer.open(LATENT)
    page.get_by_role("button", name="Copy Python").click()
    expect(page.locator(".downloads [role=status]")).to_have_text("Python copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "autoencoder in memory" in copied
    monkeypatch.chdir(tmp_path)
    row_site_input().autoencoder.save_pretrained("my-autoencoder")
    exec(compile(copied, "snippet", "exec"), {})
    assert "tensor" in capsys.readouterr().out


def test_the_csv_has_the_row_and_its_text(viewer):
    viewer.open(LATENT)
    table = viewer.csv()
    assert table[0][:4] == ["point", "text", "z", "row"]
    assert all(line[1].endswith(f"no. {line[3]}") for line in table[1:])


def test_search_finds_a_latent_by_the_text_of_a_row(viewer):
    page = viewer.open()
    expect(page.get_by_role("button", name="Search latents and rows")).to_be_visible()
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search by label, index or row").fill("setosa no.")
    expect(page.locator("#found [role=option]").first).to_contain_text("setosa no.")
    assert "token" not in page.locator("dialog").inner_text().lower()


def test_help_explains_rows(viewer):
    page = viewer.open()
    page.keyboard.press("?")
    said = page.locator("dialog").inner_text()
    assert "a quadratic form of a row x of unit length, read about the mean row" in said
    assert "token" not in said.lower()


def test_axe_finds_no_fault_in_either_theme(viewer):
    assert accessibility_faults(viewer.open(f"{LATENT}?pins=0&colour=position")) == []


def test_a_phone_shows_long_rows_without_scrolling_sideways(row_site, serve, open_viewer):
    viewer = open_viewer(serve(row_site), **PHONE)
    for route in ("", f"{LATENT}?pins=0,1,2&colour=token"):
        page = viewer.open(route)
        viewer.picture()
        assert fits_a_phone(page)
