"""The live viewer in a real browser: a text tried, its tokens as stars, a latent steered, and nothing left running."""

import time
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from quadric.run.sites import export_site
from quadric.run.viewing import run_explainer
from quadric.viewer.live.api import Api
from quadric.viewer.live.session import Session
from quadric.viewer.serve import SiteServer
from tests.explanations.small_run import NAME, make_small_run
from tests.viewer.browser import PHONE, accessibility_faults, fits_a_phone, wait_until

TEXT = "Document 3: word 3."
HOSTILE = "<img src=x onerror=document.title='pwned'> \u202e</textarea><script>1</script>"
LATENT = f"#/{NAME}/latent/5"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    run = make_small_run(tmp_path_factory.mktemp("live-page"))
    explainer = run_explainer(run, model=str(run.parent / "tiny"), device="cpu")
    export_site(explainer.autoencoder, explainer.evidence, run / "site", name=NAME, with_map=False)
    server = SiteServer(run / "site", 0, Api(Session({NAME: explainer})))
    yield server
    server.close()


@pytest.fixture
def page(open_viewer, live):
    viewer = open_viewer(live.address)
    viewer.open()
    return viewer.page


def go(page, live, route):
    page.goto("about:blank")
    page.goto(live.address + route)
    page.wait_for_selector("main")


def test_a_text_becomes_coloured_tokens_and_their_latents(page, live):
    page.get_by_role("link", name="Try it").click()
    page.get_by_label("A text, read as").fill(TEXT)
    tokens = page.locator("button.token")
    expect(tokens).to_have_count(len(TEXT))
    widths = page.evaluate("[...document.querySelectorAll('button.token')].map((each) => each.style.borderBottomWidth)")
    assert len(set(widths)) > 3
    tokens.nth(2).click()
    rows = page.get_by_role("region", name="Latents of the token, as a table").locator("tbody tr")
    expect(rows).to_have_count(8)
    wait_until(page, "() => location.hash.includes('token=2')")
    answer = page.evaluate(
        """async ([dictionary, text]) => {
            const body = JSON.stringify({ dictionary, text, top: 8 });
            const headers = { "Content-Type": "application/json" };
            const lines = await (await fetch("api/explain", { method: "POST", headers, body })).text();
            return JSON.parse(lines.trim().split("\\n").at(-1)).answer;
        }""",
        [NAME, TEXT],
    )
    shown = rows.locator("td:first-child").all_inner_texts()
    assert shown == [str(each["latent"]) for each in answer["tokens"][2]["latents"]]


def test_tokens_can_be_coloured_by_one_latent(page, live):
    go(page, live, f"#/{NAME}/try?text={quote(TEXT)}")
    first = page.get_by_role("region", name="Latents of the text").locator("li").first
    fires = first.locator(".fires bdi").count()
    first.get_by_role("button").click()
    wait_until(page, "() => location.hash.includes('colour=')")
    strong = (
        "[...document.querySelectorAll('button.token')].filter((each) => each.style.borderBottomWidth !== '2px').length"
    )
    assert fires <= page.evaluate(strong) < len(TEXT)


def test_a_latent_shows_the_tokens_as_stars_that_follow_the_typing(open_viewer, live):
    viewer = open_viewer(live.address)
    page = viewer.open(f"{LATENT}?text={quote(TEXT)}")
    expect(page.get_by_text(f"{len(TEXT)} tokens are stars in the picture")).to_be_visible()
    with_stars = viewer.picture()
    page.get_by_role("textbox", name="Your text").fill("word")
    expect(page.get_by_text("4 tokens are stars in the picture")).to_be_visible()
    fewer = viewer.picture()
    page.get_by_role("textbox", name="Your text").fill("")
    expect(page.get_by_role("list", name="Tokens of your text")).to_have_count(0)
    without = viewer.picture()
    assert len({with_stars, fewer, without}) == 3
    page.get_by_role("textbox", name="Your text").type("word", delay=10)
    expect(page.get_by_text("4 tokens are stars in the picture")).to_be_visible()
    assert viewer.picture() == fewer
    wait_until(page, "() => location.hash.includes('text=word')")
    page.get_by_role("button", name="Linear control").click()
    assert viewer.picture() != fewer


def test_steering_shows_both_sides_and_follows_the_slider(page, live):
    go(page, live, f"{LATENT}?text={quote('word 3')}")
    page.get_by_role("button", name="Continue the text, with and without").click()
    panel = page.get_by_role("region", name="Steer")
    plain = panel.get_by_role("region", name="As it is")
    moved = panel.get_by_role("region", name="With the latent moved")
    expect(moved.locator("tbody tr")).to_have_count(10)
    before = moved.inner_text()
    panel.get_by_role("slider").fill(panel.get_by_role("slider").get_attribute("min"))
    expect(moved).not_to_have_text(before)
    panel.get_by_role("button", name="Slide along z = const").click()
    panel.get_by_role("slider").fill("0")
    expect(panel.locator("p[role=status]")).to_contain_text("moved by 0.0 bits")
    assert plain.locator("table").inner_text() == moved.locator("table").inner_text()


def test_hostile_text_is_shown_and_never_run(page, live):
    for route in (f"#/{NAME}/try?text={quote(HOSTILE)}", f"{LATENT}?text={quote(HOSTILE)}"):
        go(page, live, route)
        expect(page.get_by_text("tokens", exact=False).first).to_be_visible()
        page.wait_for_selector("button.token, .own-tokens li")
        assert "pwned" not in page.title()
        assert page.locator("img").count() == 0
        assert "\u202e" not in page.locator("main").inner_text()


def test_closing_the_tab_stops_the_work(page, live, monkeypatch):
    ended = []

    def slow(request, job):
        try:
            while True:
                time.sleep(0.01)
                job.check()
        finally:
            ended.append(time.monotonic())

    monkeypatch.setitem(live.api.session.methods, "explain", slow)
    go(page, live, f"#/{NAME}/try?text=never")
    expect(page.get_by_role("status").first).to_contain_text("reading")
    page.close()
    start = time.monotonic()
    while not ended:
        assert time.monotonic() - start < 3
        time.sleep(0.01)


def test_a_question_that_fails_says_why(page, live):
    go(page, live, f"#/{NAME}/try?text={'x' * 1100}")
    expect(page.get_by_role("status").first).to_contain_text("the page reads up to 1,024; shorten it")


def test_a_static_site_offers_nothing_live_and_says_so(open_viewer, address):
    viewer = open_viewer(address)
    page = viewer.open("#/composite/try")
    expect(page.get_by_text("quadric view RUN --live")).to_be_visible()
    expect(page.get_by_role("link", name="Try it")).to_have_count(0)
    page = viewer.open("#/composite/latent/2?text=word")
    expect(page.get_by_role("region", name="Your text")).to_have_count(0)


def test_axe_finds_no_fault_in_either_theme(open_viewer, live):
    viewer = open_viewer(live.address, bypass_csp=True)
    for route in (f"#/{NAME}/try?text={quote(TEXT)}&token=1", f"{LATENT}?text={quote(TEXT)}"):
        page = viewer.open(route)
        page.wait_for_selector("button.token, .own-tokens li")
        if "latent" in route:
            page.get_by_role("button", name="Continue the text").click()
            page.wait_for_selector(".sides")
        assert accessibility_faults(page) == []


def test_the_pages_fit_a_phone(open_viewer, live):
    viewer = open_viewer(live.address, **PHONE)
    for route in (f"#/{NAME}/try?text={quote(TEXT)}&token=1", f"{LATENT}?text={quote(TEXT)}"):
        page = viewer.open(route)
        page.wait_for_selector("button.token, .own-tokens li")
        assert fits_a_phone(page)
