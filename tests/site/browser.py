"""A real Chromium that fails a test on any console message of note and any request beyond the site."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright

from quadric.site.serve import address_of, site_server

# Software GL reports how it reads back its own canvas; no page can help that.
HARMLESS = "GPU stall due to ReadPixels"


def chromium() -> str:
    """The system's Chromium; its absence is a failure, never a skip."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise AssertionError("no Chromium: apt-get install --no-install-recommends chromium fonts-noto-core")


def launch(playwright: Playwright, *arguments: str) -> Browser:
    """Chromium, with its sandbox unless the user is root, for whom it refuses to start with one."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=chromium(), args=[*sandbox, *arguments])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a site for as long as it is needed."""
    with site_server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield address_of(server)
        finally:
            server.shutdown()
            thread.join()


class Watch:
    """Collects whatever a page should not do."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.problems: list[str] = []
        self.expected: list[str] = []
        self.address = address
        context.on("console", self._console)
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        context.on("request", lambda request: self._request(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        fine = message.type in ("log", "info", "debug") or HARMLESS in message.text
        if not fine and not any(part in message.text for part in self.expected):
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.address, "blob:", "about:", "data:")):
            self.problems.append(f"request to {url}")


class Viewer:
    """A page of the viewer, with the few gestures that tests repeat."""

    def __init__(self, page: Page, address: str, watch: Watch) -> None:
        self.page = page
        self.address = address
        self.watch = watch

    def open(self, route: str = "") -> Page:
        """Go to a route and wait until there is something to read."""
        self.page.goto("about:blank")
        self.page.goto(self.address + route)
        self.page.wait_for_selector("main, .problem")
        return self.page

    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def wait_for_hash(self, part: str) -> None:
        self.page.wait_for_function("part => location.hash.includes(part)", arg=part)

    def picture(self, which: int = 0) -> bytes:
        """The scatter as it looks once it has come to rest."""
        self.page.wait_for_timeout(600)
        return self.page.locator(".scene").nth(which).screenshot()

    def sweep(self, wanted: str, which: int = 0, steps: int = 24) -> tuple[float, float]:
        """Move the pointer over the picture until something appears; where that was."""
        box = self.page.locator(".scene").nth(which).bounding_box()
        assert box is not None
        for row in range(1, steps):
            for column in range(1, steps):
                x, y = box["x"] + box["width"] * column / steps, box["y"] + box["height"] * row / steps
                self.page.mouse.move(x, y)
                if self.page.locator(wanted).count():
                    return x, y
        raise AssertionError(f"nothing like {wanted} anywhere on the picture")
