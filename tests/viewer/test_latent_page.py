"""One latent's page: picture, contexts, spectrum, neighbours, comparison, what can be taken away."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.viewer.browser import wait_until
from tests.viewer.level_sets import View
from tests.viewer.synthetic import UNSCORED, synthetic_dictionary, synthetic_text
from tests.viewer.synthetic_forms import BOWL, EGG, EMPTY, HALF_SPACE, PRINGLE

CONE, CIRCLE, DIFFUSE = "#/composite/latent/2", "#/composite/latent/0", "#/composite/latent/5"


def record_of(latent):
    """What the site of these tests stores about a latent of its first dictionary."""
    records = synthetic_dictionary(synthetic_text(), n_latents=40, n_points=300).latents
    return next(record for record in records if record.latent == latent)


def test_every_panel_of_the_paper_is_there(viewer):
    page = viewer.open(CONE)
    expect(page.get_by_role("heading", level=1)).to_contain_text("1960 · 1961 ↔ said · told")
    names = page.locator(".statistics dt").all_inner_texts()
    assert names == ["Density", "Effective rank", "Support", "Importance", "Captured"]
    for block in page.locator(".statistics > div").all():
        assert len(block.get_attribute("title")) > 20
    expect(page.locator(".contexts ol").first.locator("li")).to_have_count(6)
    expect(page.locator(".neighbours li")).to_have_count(20)
    expect(page.locator(".crumb")).to_contain_text("hyperboloid")
    marked = page.locator(".bar.shown").evaluate_all("bars => bars.map(bar => bar.textContent)")
    assert marked == ["X", "Y", "Z"]
    expect(page.locator(".badge")).to_contain_text("300 of 149,000 tokens, drawn with weight (|z − rest| + 0.001)⁴")
    expect(page.locator(".badge")).not_to_contain_text("unevaluated")


@pytest.mark.parametrize(
    ("latent", "said", "how"),
    [
        (
            0,
            "label score: detection 0.84, fuzzing 0.93 (chance 0.50)",
            "On 100 held-out contexts .* its words as a rule",
        ),
        (1, "label score: detection 0.70 (chance 0.50)", "On 20 held-out contexts .* judged by its language model"),
        (3, "label unevaluated", "Written by"),
        (UNSCORED, "label unevaluated", "over-represented tokens"),
    ],
)
def test_the_label_shown_has_its_score_or_is_said_to_be_unevaluated(viewer, latent, said, how):
    page = viewer.open(f"#/composite/latent/{latent}")
    expect(page.locator(".title .explained")).to_have_text(said)
    assert re.search(how, page.locator(".title .explained").get_attribute("title"))


def test_neighbours_come_by_overlap(viewer):
    page = viewer.open(CONE)
    overlaps = [float(text) for text in page.locator(".neighbours .value").all_inner_texts()]
    assert overlaps == sorted(overlaps, reverse=True)


def test_contexts_have_four_tokens_on_each_side_and_mark_their_own(viewer):
    page = viewer.open(CONE)
    marks = page.locator(".contexts ol").first.locator("mark").all_inner_texts()
    assert all(re.fullmatch(r"(19|20)\d\d", mark.strip()) for mark in marks)
    for line in page.locator(".context-line").all()[:6]:
        assert line.locator(".before > bdi").count() - 1 <= 4
        assert line.locator(".after > bdi").count() <= 4


def test_a_bar_of_the_spectrum_goes_to_the_axis_chosen_and_captured_follows(viewer):
    page = viewer.open(DIFFUSE)
    before = viewer.picture()
    captured = page.locator(".statistics dd").last.inner_text()
    page.get_by_role("button", name=re.compile("^λ7 = ")).click()
    page.locator(".assign").get_by_role("button", name="Y").click()
    viewer.wait_for_hash("axes=0,6,2")
    expect(page.locator(".statistics dd").last).not_to_have_text(captured)
    assert viewer.picture() != before
    marked = page.locator(".bar.shown").evaluate_all("bars => bars.map(bar => bar.textContent)")
    assert marked == ["X", "Z", "Y"]


def test_an_axis_given_to_a_taken_place_swaps(viewer):
    page = viewer.open(DIFFUSE)
    page.get_by_role("button", name=re.compile("^λ1 = ")).click()
    page.locator(".assign").get_by_role("button", name="Z").click()
    viewer.wait_for_hash("axes=2,1,0")


def test_the_surface_is_drawn_named_and_follows_its_slider(viewer):
    page = viewer.open(CONE)
    without = viewer.picture()
    page.keyboard.press("s")
    viewer.wait_for_hash("surface=")
    expect(page.locator(".surface-control")).to_contain_text("yperboloid of one sheet")
    drawn = viewer.picture()
    assert drawn != without
    slider = page.locator(".surface-control input")
    slider.focus()
    slider.press("Home")
    expect(page.locator(".surface-control")).to_contain_text("yperboloid of two sheets")
    assert viewer.picture() != drawn
    page.get_by_role("button", name="Surface").click()
    expect(page.get_by_role("button", name="Surface")).to_have_attribute("aria-pressed", "false")
    assert viewer.picture() == without


def test_the_surface_says_when_the_axes_left_out_matter_and_when_there_is_none(viewer):
    page = viewer.open(f"{DIFFUSE}?surface=0.005&axes=3,4,5")
    expect(page.locator(".surface-control .caution")).to_contain_text(re.compile(r"axes left out carry \d+ % of Σ"))
    expect(page.locator(".surface-control .caution")).to_contain_text(
        re.compile(r"this formula accounts for (< )?\d+ % of the variance of z")
    )
    page = viewer.open(f"{DIFFUSE}?surface=0.1")  # the points show that what is left out does not matter
    expect(page.locator(".surface-control .quiet")).to_contain_text(
        re.compile(r"They carry \d+ % of Σ\|λ\|\. .* accounts for (> )?\d+ % of the variance of z")
    )
    page = viewer.open(f"#/composite/latent/{BOWL}?surface=0.3")
    expect(page.locator(".surface-control .quiet")).to_contain_text("accounts for 100 % of the variance of z")
    page = viewer.open(f"{CIRCLE}?surface=-0.5")
    expect(page.locator(".surface-control .caution")).to_contain_text("there z is at least 0.0")


def pixels_of(viewer, route):
    viewer.open(f"{route}{'&' if '?' in route else '?'}eigenaxes=hide")
    return viewer.pixels(viewer.picture())


def are_background(pixels):
    return np.abs(pixels - pixels[2, 2]).max(-1) <= 1


def drawn_by(viewer, route, level, without):
    """Which pixels the surface of a level changes."""
    return np.abs(pixels_of(viewer, f"{route}?surface={level:.4g}") - without).max(-1) > 2


def view_of(record, shape):
    axes = record.axis_quadratic[:3], record.axis_linear[:3], record.constant
    return View(*axes, record.coordinates[:, :3], *shape)


@pytest.mark.parametrize(
    ("latent", "share", "name"),
    [
        (2, 0.5, "Hyperboloid of one sheet"),
        (3, 0.5, "Ellipsoid"),
        (BOWL, 0.5, "Elliptic paraboloid"),
        (EGG, 0.12, "Ellipsoid"),
        (PRINGLE, 0.3, "Hyperbolic paraboloid"),
        (HALF_SPACE, 0.6, "Plane"),
    ],
    ids=["hyperboloid", "ellipsoid", "elliptic paraboloid", "shifted ellipsoid", "hyperbolic paraboloid", "plane"],
)
def test_the_surface_covers_exactly_the_pixels_whose_rays_meet_the_level_set(viewer, latent, share, name):
    """Of the pixels without a point: points may hide the surface."""
    record = record_of(latent)
    step = share * abs(record.values[0] - record.rest)
    level = float(f"{record.rest + step:.4g}")
    route = f"#/composite/latent/{latent}"
    without = pixels_of(viewer, route)
    changed, background = drawn_by(viewer, route, level, without), are_background(without)
    expect(viewer.page.locator(".surface-control p")).to_contain_text(name)
    view = view_of(record, changed.shape)
    generator = np.random.default_rng(0)
    n_covered = n_empty = 0
    for row, column in generator.integers((3, 3), np.array(changed.shape) - 3, (600, 2)).tolist():
        if not background[row - 1 : row + 2, column - 1 : column + 2].all():
            continue
        if view.is_covered(row, column, level, within=0.95, slack=-0.02 * step):
            assert changed[row, column], f"no surface at pixel {row, column}"
            n_covered += 1
        elif not view.is_covered(row, column, level, within=1.3, slack=0.02 * step):
            assert not changed[row, column], f"a surface at pixel {row, column}"
            n_empty += 1
    assert min(n_covered, n_empty) > 40


@pytest.mark.parametrize(("latent", "points"), [(2, (0, 60)), (BOWL, (0, 40)), (EGG, (0, 60, 120))])
def test_the_level_set_passes_through_the_points_of_its_level(viewer, latent, points):
    """The synthetic z is exact on three axes, so a point lies on the surface of its own activation."""
    record, route = record_of(latent), f"#/composite/latent/{latent}"
    without = pixels_of(viewer, route)
    background = are_background(without)
    view = view_of(record, background.shape)
    n_surrounded = 0
    for point in points:
        level = float(f"{record.values[point]:.4g}")
        changed = drawn_by(viewer, route, level, without)
        row, column = view.pixel_of(record.coordinates[point, :3])
        assert not background[row, column], "no point is drawn where the point must be"
        around = np.s_[row - 12 : row + 13, column - 12 : column + 13]
        assert view.is_covered(row, column, level, slack=0.01 * abs(level))
        # At the rim of the surface only one side of the point is covered.
        if view.is_covered(row, column, level, within=0.95, slack=-0.05 * abs(level)):
            assert changed[around][background[around]].mean() > 0.9
            n_surrounded += 1
    assert n_surrounded


def test_the_centre_and_the_mean_token_are_marked_and_named(viewer):
    """The cross stands where −slope/2λ is on every axis."""
    record = record_of(EGG)
    page = viewer.open(f"#/composite/latent/{EGG}")
    expect(page.locator(".legend")).to_contain_text("origin: the mean token")
    expect(page.locator(".legend")).to_contain_text("centre of the quadric")
    with_markers = viewer.pixels(viewer.picture())
    view = view_of(record, with_markers.shape[:2])
    row, column = view.pixel_of(-record.axis_linear[:3] / (2 * record.axis_quadratic[:3]))
    violet = np.abs(with_markers - [0x5B, 0x4B, 0xB5]).max(-1) < 40
    assert violet[row - 3 : row + 4, column - 3 : column + 4].any()
    row, column = view.pixel_of(np.zeros(3))
    ink = np.abs(with_markers - [0x1B, 0x1A, 0x20]).max(-1) < 60
    assert ink[row - 8 : row + 9, column - 8 : column + 9].any()
    page = viewer.open(f"#/composite/latent/{BOWL}")
    expect(page.locator(".legend")).not_to_contain_text("centre of the quadric")


def test_a_linear_direction_is_an_axis_and_a_bar_of_its_own(viewer):
    page = viewer.open(f"#/composite/latent/{BOWL}")
    bar = page.get_by_role("button", name=re.compile("^linear direction, slope −0.700, on Z"))
    expect(bar).to_have_class(re.compile("linear"))
    page.get_by_text("The same points as a table").click()
    heads = page.locator(".point-table thead").inner_text()
    assert "X: v·e₁, λ = " in heads
    assert "Z: linear, slope −0.70, from the mean token" in heads
    bar.click()
    page.locator(".assign").get_by_role("button", name="X").click()
    viewer.wait_for_hash("axes=2,1,0")
    expect(page.get_by_role("button", name=re.compile("^linear direction, slope −0.700, on X"))).to_be_visible()


def test_a_surface_without_the_linear_direction_says_so(viewer):
    page = viewer.open(f"#/composite/latent/{BOWL}?axes=0,1,3&surface=0.3")
    expect(page.locator(".surface-control .caution")).to_contain_text("The linear direction is not among them")


def test_a_chip_says_how_curved_a_latent_is_and_what_that_means(viewer):
    page = viewer.open(f"#/composite/latent/{HALF_SPACE}")
    chip = page.locator(".crumb .chip:not(.pattern, .doubtful)")  # those are of patterns
    expect(chip).to_have_text("linear 98 %")
    said = chip.get_attribute("title")
    assert "2 % of z's variance is explained by no linear function" in said
    assert "from the weights alone" in said
    page = viewer.open(CONE)
    expect(chip).to_have_text(re.compile(r"curved \d+ %"))
    page = viewer.open(f"#/composite/latent/{EMPTY}")
    expect(page.locator(".crumb")).to_contain_text("empty")
    expect(chip).to_have_count(0)


def test_axes_can_be_hidden(viewer):
    page = viewer.open(CONE)
    shown = viewer.picture()
    page.keyboard.press("a")
    viewer.wait_for_hash("eigenaxes=hide")
    assert viewer.picture() != shown


@pytest.mark.parametrize(
    ("colour", "legend"),
    [("activation", "z − rest"), ("sign", "z > rest"), ("token", "any other token"), ("position", "start of sequence")],
)
def test_every_colouring_has_its_legend(viewer, colour, legend):
    page = viewer.open(CONE)
    page.get_by_role("combobox", name="Colour", exact=True).select_option(colour)
    expect(page.locator(".legend")).to_contain_text(legend)


def test_colourings_differ_and_one_key_goes_through_them(viewer):
    page = viewer.open(CONE)
    pictures = set()
    for _ in range(4):
        pictures.add(viewer.picture())
        page.keyboard.press("c")
    assert len(pictures) == 4


def test_the_random_control_shows_the_same_tokens_elsewhere_and_says_so(viewer):
    page = viewer.open(CONE)
    before = viewer.picture()
    page.keyboard.press("r")
    viewer.wait_for_hash("control=random")
    expect(page.get_by_text("the same tokens on three random directions")).to_be_visible()
    assert viewer.picture() != before


def test_the_linear_control_shows_the_same_tokens_along_one_direction_and_says_what_follows(viewer):
    page = viewer.open(CONE)
    before = viewer.picture()
    page.keyboard.press("l")
    viewer.wait_for_hash("control=linear")
    expect(page.get_by_text("If this picture looks as good, the latent is a direction.")).to_be_visible()
    expect(page.get_by_role("button", name="Linear control")).to_have_attribute("aria-pressed", "true")
    assert viewer.picture() != before
    page.keyboard.press("r")
    viewer.wait_for_hash("control=random")
    expect(page.get_by_role("button", name="Linear control")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("r")
    wait_until(page, "() => !location.hash.includes('control=')")
    assert viewer.picture() == before


def test_the_csv_of_the_linear_control_has_its_directions(viewer):
    viewer.open(f"{CONE}?control=linear")
    table = viewer.csv()
    assert table[0][4].startswith("x (best linear direction")
    assert table[0][5].startswith("y (random direction")
    np.testing.assert_allclose([float(row[4]) for row in table[1:]], record_of(2).linear, atol=1e-3)


def test_hovering_a_point_shows_its_token_and_text(viewer):
    page = viewer.open(CONE)
    viewer.picture()
    viewer.sweep(".tooltip")
    expect(page.locator(".tooltip")).to_contain_text("z = rest ")
    expect(page.locator(".tooltip mark")).to_have_count(1)


def test_hovering_a_context_rings_its_point_and_the_other_way_round(viewer):
    page = viewer.open(CONE)
    before = viewer.picture()
    page.locator(".context").first.hover()
    assert viewer.picture() != before
    page.mouse.move(5, 5)
    viewer.sweep(".context.hovered", steps=60)


def test_hovering_a_neighbour_shows_what_both_keep(viewer):
    page = viewer.open(CONE)
    page.locator(".neighbours a").first.hover()
    expect(page.locator(".neighbour-note")).to_contain_text(
        re.compile(r"\d+ of these points are also points of latent 8")
    )


def test_a_click_pins_a_point_with_its_long_context_and_the_address_keeps_it(viewer):
    page = viewer.open(CONE)
    viewer.picture()
    viewer.sweep(".tooltip")
    page.mouse.down()
    page.mouse.up()
    viewer.wait_for_hash("pins=")
    pinned = page.locator(".pins li")
    expect(pinned).to_have_count(1)
    expect(pinned.locator("mark")).to_have_count(1)
    assert 40 < pinned.locator("bdi").count() <= 1 + 1 + 129
    viewer.open(viewer.hash())
    expect(pinned).to_have_count(1)
    page.get_by_role("button", name=re.compile("Unpin")).click()
    expect(pinned).to_have_count(0)


def test_a_context_pins_too_and_escape_drops_all(viewer):
    page = viewer.open(CONE)
    page.locator(".context").first.click()
    page.locator(".context").nth(1).click()
    expect(page.locator(".pins li")).to_have_count(2)
    expect(page.locator(".context").first).to_have_attribute("aria-pressed", "true")
    page.locator("h1").click()
    page.keyboard.press("Escape")
    expect(page.locator(".pins li")).to_have_count(0)


def test_keys_turn_pages(viewer):
    page = viewer.open(CONE)
    page.keyboard.press("j")
    viewer.wait_for_hash("latent/3")
    page.keyboard.press("k")
    page.keyboard.press("k")
    viewer.wait_for_hash("latent/1")
    page.go_back()
    viewer.wait_for_hash("latent/2")
    expect(page.locator(".crumb")).to_contain_text("latent 2")


def test_keys_move_the_camera_and_the_address_follows(viewer):
    page = viewer.open(CONE)
    before = viewer.picture()
    seen = {before}
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "+", "-", "x", "y", "z"):
        page.keyboard.press(key)
        viewer.wait_for_hash("camera=")
        seen.add(viewer.picture())
        page.keyboard.press("0")
        wait_until(page, "() => !location.hash.includes('camera=')")
        assert viewer.picture() == before
    assert len(seen) == 10


def test_dragging_turns_and_a_deep_link_shows_exactly_the_same(viewer):
    page = viewer.open(f"{CONE}?colour=sign&surface=0.3")
    before = viewer.picture()
    page.locator(".scene").hover()
    page.mouse.down()
    page.mouse.move(300, 300, steps=5)
    page.mouse.up()
    viewer.wait_for_hash("camera=")
    page.mouse.move(5, 5)
    turned = viewer.picture()
    assert turned != before
    link = viewer.hash()
    assert "colour=sign" in link
    assert "surface=0.3" in link
    viewer.open(link)
    assert viewer.picture() == turned
    assert viewer.hash() == link


def test_a_link_to_a_close_view_shows_exactly_the_same(viewer):
    """Beyond a zoom of ten an address has fewer decimals than the camera."""
    page = viewer.open(CONE)
    page.locator(".scene").hover()
    page.mouse.wheel(0, -1234)
    viewer.wait_for_hash("camera=")
    page.mouse.move(5, 5)
    zoomed = viewer.picture()
    link = viewer.hash()
    assert float(link.split("camera=")[1].split(",")[4]) > 10
    viewer.open(link)
    assert viewer.picture() == zoomed


def test_names_of_axes_are_drawn_again_once_their_font_has_loaded(open_viewer, address):
    viewer = open_viewer(address)
    viewer.open(CONE)
    expected = viewer.picture()
    late = open_viewer(address)
    held = []
    late.page.route("**/*.woff2", lambda route: held.append(route))
    late.open(CONE)
    late.page.wait_for_selector(".bar")
    late.page.evaluate("async () => { for (let i = 0; i < 8; i++) await new Promise(requestAnimationFrame) }")
    for route in held:
        route.continue_()
    late.page.unroute("**/*.woff2")
    assert late.picture() == expected


def test_the_wheel_zooms(viewer):
    page = viewer.open(CONE)
    before = viewer.picture()
    page.locator(".scene").hover()
    page.mouse.wheel(0, -200)
    viewer.wait_for_hash("camera=")
    page.mouse.move(5, 5)
    assert viewer.picture() != before


def test_comparison_shows_both_with_one_camera_and_their_overlap(viewer):
    page = viewer.open(CONE)
    page.get_by_role("button", name="Compare with latent 8").click()
    viewer.wait_for_hash("versus=8")
    expect(page.locator(".scene")).to_have_count(2)
    expect(page.locator(".comparison-title").last).to_contain_text("Subspace overlap 0.90")
    expect(page.get_by_role("region", name="Contexts of latent 8")).to_be_visible()
    before = [viewer.picture(0), viewer.picture(1)]
    page.keyboard.press("ArrowLeft")
    after = [viewer.picture(0), viewer.picture(1)]
    assert after[0] != before[0]
    assert after[1] != before[1]
    page.get_by_role("button", name="End comparison").click()
    expect(page.locator(".scene")).to_have_count(1)


def test_a_comparison_of_strangers_bounds_their_overlap(viewer):
    page = viewer.open("#/composite/latent/8?versus=11")
    expect(page.locator(".comparison-title").last).to_contain_text("overlap at most 0.20")


def test_the_png_has_the_picture_and_its_caption(viewer):
    page = viewer.open(CONE)
    viewer.picture()
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    content = download.value.path().read_bytes()
    assert download.value.suggested_filename == "latent-2.png"
    assert content.startswith(b"\x89PNG")
    colours = page.evaluate(
        """async (bytes) => {
            const picture = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
            const canvas = new OffscreenCanvas(picture.width, picture.height);
            const pen = canvas.getContext("2d");
            pen.drawImage(picture, 0, 0);
            const { data } = pen.getImageData(0, 0, canvas.width, canvas.height - 56);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        list(content),
    )
    assert colours > 100


def test_the_csv_has_every_point_with_its_coordinates(viewer):
    viewer.open(CONE)
    table = viewer.csv()
    assert table[0][:4] == ["point", "token", "z", "place"]
    assert len(table) == 301
    sizes = [abs(float(row[2])) for row in table[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert table[0][7:] == ["z minus rest", "best linear direction, from the mean token"]
    lambdas = [float(re.search(r"= ([+−][\d.]+)", name)[1].replace("−", "-")) for name in table[0][4:7]]
    for row in table[1:10]:
        form = sum(weight * float(u) ** 2 for weight, u in zip(lambdas, row[4:7], strict=True))
        assert form == pytest.approx(float(row[2]), rel=0.06)


def test_the_csv_of_a_paraboloid_satisfies_its_equation(viewer):
    viewer.open(f"#/composite/latent/{BOWL}")
    record, table = record_of(BOWL), viewer.csv()
    numbers = np.array([[float(cell) for cell in (row[2], *row[4:9])] for row in table[1:]])
    z, u, above, linear = numbers[:, 0], numbers[:, 1:4], numbers[:, 4], numbers[:, 5]
    expected = np.square(u) @ record.axis_quadratic[:3] + u @ record.axis_linear[:3] + record.constant
    np.testing.assert_allclose(z, expected, atol=1e-3)
    np.testing.assert_allclose(above, z - record.rest, atol=1e-4)
    np.testing.assert_allclose(linear, record.linear, atol=1e-4)
    assert "linear, slope −0.70, from the mean token" in table[0][6]


def test_python_and_link_can_be_copied(open_viewer, address):
    viewer = open_viewer(address, permissions=["clipboard-read", "clipboard-write"])
    page = viewer.open(CONE)
    page.get_by_role("button", name="Copy Python").click()
    expect(page.locator(".downloads [role=status]")).to_have_text("Python copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'quadric.load("runs/synthetic", name="composite")' in copied
    assert "quadric.geometry.read(autoencoder, 2)" in copied
    compile(copied, "snippet", "exec")
    page.get_by_role("button", name="Copy link").click()
    wait_until(page, "async () => (await navigator.clipboard.readText()) === location.href")


def test_the_table_has_the_same_points(viewer):
    page = viewer.open(CONE)
    page.get_by_text("The same points as a table").click()
    expect(page.locator(".point-table tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Show more (50 of 300)").click()
    expect(page.locator(".point-table tbody tr")).to_have_count(250)


def test_an_axis_a_latent_does_not_have_is_called_random(viewer):
    page = viewer.open("#/composite/latent/1")
    page.get_by_text("The same points as a table").click()
    expect(page.locator(".point-table thead")).to_contain_text("random direction")
