"""What a reader sees when things are broken, hostile, small or unseen: never a blank page."""

import gzip
import json
import shutil

import pytest
from playwright.sync_api import expect

from quadric.viewer.encoding import pack, unpack
from tests.viewer.browser import PHONE, accessibility_faults, fits_a_phone, launch, wait_until
from tests.viewer.synthetic import HOSTILE

LATENT = "#/composite/latent/2"


@pytest.fixture
def damaged(site_on_disk, tmp_path, serve, open_viewer):
    """Opens a route of a copy of the site after something was done to it."""

    def open_after(damage, route, expected=()):
        folder = shutil.copytree(site_on_disk, tmp_path / "copy")
        damage(folder)
        viewer = open_viewer(serve(folder))
        viewer.watch.expected += expected
        return viewer.open(route)

    return open_after


def cut(name, keep=0.5):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(keep * len(content))])

    return damage


@pytest.mark.parametrize(
    ("name", "route"),
    [
        ("data/composite/latents/00002.st", LATENT),
        ("data/composite/index.st", ""),
        ("data/composite/labels.json.gz", ""),
        ("data/texts/synthetic/vocabulary.st", LATENT),
        ("data/site.json", ""),
    ],
)
def test_a_truncated_file_is_named_with_the_remedy(damaged, name, route):
    page = damaged(cut(name), route)
    expect(page.get_by_role("alert")).to_contain_text("A file of this site is damaged")
    expect(page.get_by_role("alert")).to_contain_text(name)
    expect(page.get_by_role("alert")).to_contain_text("Export or upload it again")


@pytest.mark.parametrize("name", ["latents/00002.st", "clusters.json.gz", "patterns.json.gz"])
def test_a_file_that_is_whole_but_nonsense_is_named(damaged, name):
    def damage(folder):
        (folder / "data/composite" / name).write_bytes(gzip.compress(b"{"))

    page = damaged(damage, LATENT)
    expect(page.get_by_role("alert")).to_contain_text(f"data/composite/{name} cannot be read")
    if "patterns" in name:  # the map opens all the same
        page.goto(page.url.split("#")[0] + "#/composite")
        expect(page.locator(".map-page")).to_contain_text(f"{name} cannot be read")
        expect(page.locator(".list tbody tr").first).to_be_visible()


def without_clusters(folder):
    (folder / "data/composite/clusters.json.gz").unlink()
    for path in (folder / "data/composite/latents").iterdir():
        path.write_bytes(pack({name: each for name, each in unpack(path.read_bytes()).items() if name != "clusters"}))


def without_scores(folder):
    path = folder / "data/composite/labels.json.gz"
    labels = [{name: label[name] for name in label if "score" not in name} for label in json.loads(gunzipped(path))]
    path.write_bytes(gzip.compress(json.dumps(labels).encode()))


def gunzipped(path):
    return gzip.decompress(path.read_bytes())


@pytest.mark.parametrize(
    ("part", "remove"),
    [
        ("clusters", without_clusters),
        ("patterns", lambda folder: (folder / "data/composite/patterns.json.gz").unlink()),
        ("labels.scored", without_scores),
    ],
)
def test_a_site_without_a_part_is_shown_without_it(damaged, part, remove):
    def damage(folder):
        manifest = json.loads((folder / "data/site.json").read_text(encoding="utf-8"))
        of, _, name = part.rpartition(".")
        for entry in manifest["dictionaries"]:
            del (entry[of] if of else entry)[name]
        (folder / "data/site.json").write_text(json.dumps(manifest), encoding="utf-8")
        remove(folder)

    page = damaged(damage, "#/composite/latent/3")
    expect(page.locator(".neighbours li").first).to_be_visible()
    clusters = page.get_by_role("region", name="Clusters", exact=True)
    expect(clusters).to_have_count(0 if part == "clusters" else 1)
    expect(page.get_by_role("region", name="Example geometries")).to_have_count(0 if part == "patterns" else 1)
    if part == "labels.scored":
        expect(page.locator(".title .explained")).to_have_text("label unevaluated")
        expect(page.locator(".badge")).to_contain_text("Labels are unevaluated")
        expect(page.locator("footer.bottom")).to_contain_text("Unevaluated.")
    page.goto(page.url.split("#")[0] + "#/composite")
    expect(page.locator(".list tbody tr").first).to_be_visible()


def test_a_missing_file_is_named(damaged):
    page = damaged(lambda folder: (folder / "data/composite/latents/00002.st").unlink(), LATENT, ["404"])
    expect(page.get_by_role("alert")).to_contain_text("A file of this site is missing")
    page.get_by_role("link", name="Latent 0").click()
    expect(page.locator(".latent-page")).to_be_visible()


def version(number):
    def damage(folder):
        manifest = json.loads((folder / "data/site.json").read_text())
        (folder / "data/site.json").write_text(json.dumps(manifest | {"schema_version": number}))

    return damage


def test_an_older_schema_says_why_and_to_export_again(damaged):
    page = damaged(version(1), "")
    expect(page.get_by_role("alert")).to_contain_text("This site is too old for this viewer")
    expect(page.get_by_role("alert")).to_contain_text("schema version 1; this viewer reads version 2")
    expect(page.get_by_role("alert")).to_contain_text("Export it again with quadric site")


def test_quality_that_is_unknown_is_said_to_be_unknown(damaged):
    def damage(folder):
        manifest = json.loads((folder / "data/site.json").read_text())
        for entry in manifest["dictionaries"]:
            entry["quality"] = dict.fromkeys(entry["quality"])
            entry["centre_norm"] = 0
        (folder / "data/site.json").write_text(json.dumps(manifest))

    page = damaged(damage, "")
    said = page.get_by_role("region", name="Quality").inner_text()
    assert "Not measured. Evaluate the run on held-out data" in said
    assert said.count("not measured") == 3
    assert "36 of 40" in " ".join(said.split())
    assert "latents are shown about the origin" in said
    assert "null" not in said
    page.goto(page.url.split("#")[0] + LATENT)
    expect(page.locator(".legend")).to_contain_text("origin")
    expect(page.locator(".legend")).not_to_contain_text("mean")


def test_a_newer_schema_says_to_upgrade(damaged):
    page = damaged(version(99), "")
    expect(page.get_by_role("alert")).to_contain_text("This site is newer than its viewer")
    expect(page.get_by_role("alert")).to_contain_text("pip install -U quadric")


@pytest.mark.parametrize("latent", ["40", "99999", "-1", "1.5", "abc"])
def test_a_latent_that_is_not_there_says_which_are(viewer, latent):
    page = viewer.open(f"#/composite/latent/{latent}")
    expect(page.get_by_role("alert")).to_contain_text("has latents 0 to 39")


def test_an_unknown_dictionary_lists_the_known(viewer):
    page = viewer.open("#/nothing")
    expect(page.get_by_role("alert")).to_contain_text("no dictionary “nothing”")
    page.get_by_role("link", name="atomic").click()
    expect(page.locator(".map-page")).to_be_visible()


def test_a_comparison_with_nothing_leaves_the_first_latent_in_place(viewer):
    page = viewer.open(f"{LATENT}?versus=999")
    expect(page.get_by_role("alert")).to_contain_text("There is no latent 999")
    expect(page.locator(".contexts").first).to_be_visible()


def test_a_damaged_shard_spoils_no_more_than_its_text(damaged):
    page = damaged(
        lambda folder: [cut(f"data/texts/synthetic/0000{shard}.st")(folder) for shard in (0, 1, 2)], f"{LATENT}?pins=0"
    )
    expect(page.locator(".pins")).to_contain_text("the text around it cannot be read")
    expect(page.locator(".context")).not_to_have_count(0)


def test_without_webgl_the_numbers_are_still_there(playwright, open_viewer, address):
    other = launch(playwright, "--disable-3d-apis")
    viewer = open_viewer(address, other)
    page = viewer.open(LATENT)
    expect(page.get_by_role("note")).to_contain_text("no WebGL2")
    expect(page.locator(".neighbours li")).to_have_count(20)
    page.get_by_text("The same points as a table").click()
    expect(page.locator(".point-table tbody tr")).to_have_count(50)
    page = viewer.open()
    expect(page.get_by_role("note")).to_contain_text("No map here")
    expect(page.locator(".list tbody tr")).to_have_count(36)
    page.context.close()
    other.close()


def test_hostile_tokens_are_drawn_as_plain_text(viewer):
    page = viewer.open(LATENT)
    elements = page.locator("img, script, iframe, object, style").count()
    page.on("dialog", lambda dialog: viewer.watch.problems.append("a dialog opened"))
    page.get_by_text("The same points as a table").click()
    page.get_by_role("button", name="Show more (50 of 300)").click()
    page.get_by_role("button", name="Show more (250 of 300)").click()
    expect(page.locator(".point-table tbody tr")).to_have_count(300)
    texts = page.locator(".point-table tbody th").all_inner_texts()
    assert HOSTILE[0] in texts
    assert HOSTILE[1] in texts
    assert "⟨U+202E⟩gnp.exe" in texts
    assert not any("\u202e" in text for text in texts)
    page.get_by_role("button", name="Search latents").click()
    page.get_by_role("combobox", name="Search by label").fill("<img src=x")
    expect(page.locator("#found [role=option]").first).to_contain_text("<img src=x onerror=alert(1)> ↔ ⟨U+202E⟩gnp.exe")
    assert page.locator("img, script, iframe, object, style").count() == elements == 1


def test_a_character_spread_over_two_tokens_is_read_as_one(viewer, site_on_disk):
    page = viewer.open("#/composite")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search by label").fill("caf")
    expect(page.locator(".search [role=status]")).to_contain_text("found")
    assert "�" not in page.content()


def test_inline_code_and_foreign_code_are_refused(viewer):
    page = viewer.open()
    viewer.watch.expected += ["Content Security Policy", "Trusted", "has been blocked"]
    refused = page.evaluate(
        """() => {
            const tries = [
                () => { document.body.innerHTML = "<b>x</b>"; },
                () => { document.body.setAttribute("onclick", "1"); },
                () => { document.createElement("script").text = "1"; },
            ];
            return tries.map((attempt) => { try { attempt(); return false; } catch { return true; } });
        }"""
    )
    assert refused == [True, True, True]


ROUTES = {
    "map": "",
    "map, UMAP, filtered": "#/composite?layout=umap&colour=shape&dense=hide&filter=density:0.1:0.5",
    "latent": LATENT,
    "latent, all shown": f"{LATENT}?surface=0.3&pins=0,3&versus=8&colour=token&control=random",
    "latent, caution": "#/composite/latent/5?surface=0.1&colour=position",
    "latent, linear control": "#/composite/latent/9?surface=0.3&control=linear",
    "latent, shifted": "#/composite/latent/10?surface=0.4",
    "latent, empty": "#/composite/latent/21?surface=0",
    "latent, clusters": "#/composite/latent/3?colour=cluster",
    "compare": "#/composite/versus/atomic?pair=2",
    "problem": "#/composite/latent/999",
}


@pytest.mark.parametrize("name", [*ROUTES, "search", "help"])
def test_axe_finds_no_fault_in_either_theme(viewer, name):
    page = viewer.open(ROUTES.get(name, ""))
    if name in ("search", "help"):
        page.keyboard.press("/" if name == "search" else "?")
        page.wait_for_selector("dialog")
    if name == "search":
        page.get_by_role("combobox", name="Search by label").fill("slab")
        page.wait_for_selector("[role=option]")
    if name.startswith("latent"):
        page.get_by_text("The same points as a table").click()
    assert accessibility_faults(page) == []


@pytest.mark.parametrize(
    "route", ["", LATENT, f"{LATENT}?versus=8&surface=0.3&pins=1", "#/composite/versus/atomic?pair=2"]
)
def test_a_phone_shows_everything_without_scrolling_sideways(open_viewer, address, route):
    viewer = open_viewer(address, **PHONE)
    page = viewer.open(route)
    viewer.picture()  # everything has loaded and found its place
    assert fits_a_phone(page)
    scene = page.locator(".scene").first.bounding_box()
    assert scene["width"] > 300
    assert scene["height"] > 250


def test_the_theme_follows_the_system_until_the_reader_chooses(open_viewer, address):
    viewer = open_viewer(address, color_scheme="dark")
    page = viewer.open()
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(11, 11, 15)"
    page.emulate_media(color_scheme="light")
    wait_until(page, f"{background} === 'rgb(246, 244, 239)'")
    page.get_by_label("Theme").select_option("dark")
    wait_until(page, f"{background} === 'rgb(11, 11, 15)'")
    viewer.open(LATENT)
    wait_until(page, f"{background} === 'rgb(11, 11, 15)'")


def test_a_skeleton_stands_while_data_is_on_its_way(open_viewer, address):
    viewer = open_viewer(address)
    waiting = []
    viewer.page.route("**/latents/00002.st", lambda route: waiting.append(route))
    viewer.page.goto(address + LATENT)
    expect(viewer.page.get_by_role("status", name="Loading latent 2")).to_be_visible()
    while not waiting:  # the page shows the skeleton before it asks for the data
        viewer.page.wait_for_timeout(20)
    waiting.pop().continue_()
    expect(viewer.page.locator(".latent-page")).to_be_visible()
