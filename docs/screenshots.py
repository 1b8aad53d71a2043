"""Take the README's screenshots of a site: python docs/screenshots.py runs/demo --latent 17"""

import argparse
import shutil
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from quadric.viewer.serve import SiteServer, site_folder

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1400, "height": 900}


def take(page: Page, address: str, name: str) -> None:
    """Take one screenshot once everything has loaded and been drawn."""
    page.goto(address)
    page.wait_for_selector(".scene canvas")
    page.wait_for_load_state("networkidle")
    page.wait_for_function("document.fonts.status === 'loaded'")
    page.evaluate("async () => { for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame) }")
    page.screenshot(path=IMAGES / name)
    print(f"wrote {IMAGES / name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="a site, or a run that contains one")
    parser.add_argument("--latent", type=int, required=True, help="latent whose page is shown")
    parser.add_argument("--colour", default="cluster", help="what the colours of its points mean")
    options = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    IMAGES.mkdir(exist_ok=True)
    with closing(SiteServer(site_folder(options.site), 0)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
            take(page, server.address, f"map-{theme}.png")
            take(page, f"{server.address}#/latent/{options.latent}?colour={options.colour}", f"latent-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
