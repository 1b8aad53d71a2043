"""Claims: 10,000 points rotate at 30 frames per second or more; a latent's page is usable 100 ms after its data."""

import gzip
import statistics
import sys
import tempfile
from pathlib import Path

from measure import write_table

sys.path.insert(0, str(Path(__file__).parents[1]))
from playwright.sync_api import Page, sync_playwright

from quadric.viewer.writer import STATIC, write_site
from tests.viewer.browser import launch, served
from tests.viewer.synthetic import synthetic_dictionary, synthetic_text

SIZE = {"width": 1360, "height": 900}
SECONDS = 5
PAGES = 12

ROTATE = """async (seconds) => {
    const canvas = document.querySelector(".scene-points");
    const gl = canvas.getContext("webgl2");
    const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    const frame = () => new Promise(requestAnimationFrame);
    for (let i = 0; i < 10; i++) { press(); await frame(); }
    const start = performance.now();
    let frames = 0;
    while (performance.now() - start < 1000 * seconds) { press(); await frame(); frames++; }
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); // wait for queued draw calls
    return (1000 * frames) / (performance.now() - start);
}"""

TURN_TO = """(latent) => new Promise((done) => {
    performance.clearResourceTimings();
    const seen = new MutationObserver(() => {
        if (!document.querySelector(".crumb")?.textContent.includes(`latent ${latent} `)) return;
        seen.disconnect();
        requestAnimationFrame(() => setTimeout(() => {
            const file = performance.getEntriesByType("resource").find(({ name }) => name.includes(`/latents/`));
            done(performance.now() - file.responseEnd);
        }));
    });
    seen.observe(document, { subtree: true, childList: true, characterData: true });
    location.hash = `#/composite/latent/${latent}`;
})"""


def write(folder: Path, n_latents: int, n_points: int) -> None:
    """A synthetic site of the given size."""
    text = synthetic_text()
    dictionary = synthetic_dictionary(text, n_latents=n_latents, n_points=n_points)
    write_site(folder, title="benchmark", texts=[text], dictionaries=[dictionary])


def frames_per_second(page: Page, address: str, query: str) -> float:
    """Frames per second while an arrow key rotates the picture at every frame."""
    page.goto("about:blank")
    page.goto(f"{address}#/composite/latent/2{query}")
    page.wait_for_selector(".scene-points")
    return float(page.evaluate(ROTATE, SECONDS))


def milliseconds_to_page(page: Page, address: str) -> list[float]:
    """Times from the last byte of a latent's file to the drawn page.

    Visits every second latent, because the viewer prefetches the next one.
    """
    page.goto("about:blank")
    page.goto(f"{address}#/composite/latent/0")
    page.wait_for_selector(".latent-page")
    page.wait_for_timeout(500)
    times = []
    for latent in range(2, 2 + 2 * PAGES, 2):
        times.append(float(page.evaluate(TURN_TO, latent)))
        page.wait_for_timeout(300)
    return times


def packed(*names: str) -> int:
    """Size of built assets in bytes, each gzipped separately as a web host would do."""
    return sum(len(gzip.compress((STATIC / "assets" / name).read_bytes())) for name in names)


def main() -> None:
    """Measure on synthetic sites and write the table."""
    rows = []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_context(viewport=SIZE).new_page()
        for n_points in (2_000, 10_000):
            folder = Path(place) / str(n_points)
            write(folder, 3, n_points)
            with served(folder) as address:
                for name, query in (("points and axes", ""), ("and surface", "?surface=0.3")):
                    rate = frames_per_second(page, address, query)
                    rows.append([f"rotation, {n_points:,} points, {name}", f"{rate:.0f} frames/s"])
        write(Path(place) / "pages", 2 * PAGES + 2, 2_000)
        with served(Path(place) / "pages") as address:
            times = milliseconds_to_page(page, address)
        spread = f"{statistics.median(times):.0f} ms ({min(times):.0f}–{max(times):.0f})"
        rows.append([f"data to drawn page, 2,000 points, {len(times)} latents", spread])
        version = browser.version
        browser.close()
    rows.append(["application (script and styles), gzipped", f"{packed('app.js', 'app.css') / 1000:.1f} kB"])
    fonts = packed("inter-latin.woff2", "inter-greek.woff2", "inter-latin-ext.woff2")
    rows.append(["fonts, each loaded on demand", f"{fonts / 1000:.0f} kB"])
    notes = (
        f"`python benchmarks/bench_viewer.py`: headless Chromium {version} with software GL, "
        f"{SIZE['width']}×{SIZE['height']}, {SECONDS} s of rotation at every frame."
    )
    write_table("viewer", "The viewer in a browser", ["quantity", "measured"], rows, notes)


if __name__ == "__main__":
    main()
