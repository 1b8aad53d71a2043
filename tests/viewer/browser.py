"""A real Chromium that fails a test on any console warning or error and on any request beyond the site."""

import base64
import csv
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

from quadric.viewer.serve import SiteServer

# Software GL warns about reading back its own canvas, which no page can avoid.
HARMLESS = "GPU stall due to ReadPixels"
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
"""Settings of a browser for `open_viewer`."""


# Within the page: a thousand moves of the real pointer would be slow.
SWEEP = """async ([wanted, steps]) => {
    const scene = document.querySelector(".scene");
    const box = scene.getBoundingClientRect();
    const { port1, port2 } = new MessageChannel(); // nested timers wait for 4 ms each, messages do not
    const turn = () => new Promise((done) => { port2.onmessage = done; port1.postMessage(0); });
    for (let row = 1; row < steps; row++)
        for (let column = 1; column < steps; column++) {
            const [x, y] = [box.x + (box.width * column) / steps, box.y + (box.height * row) / steps];
            scene.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
            await turn();
            if (document.querySelector(wanted)) return [x, y];
        }
    return null;
}"""


DECODE = """async (encoded) => {
    const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes]));
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0);
    const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
    let text = "";
    for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
    return [[canvas.height, canvas.width], btoa(text)];
}"""


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
    """Serve a site inside a with block; gives its address."""
    with closing(SiteServer(folder, 0)) as server:
        yield server.address


def wait_until(page: Page, condition: str, argument: object = None) -> None:
    """Ask until it holds. Playwright's wait_for_function evaluates strings inside the page from its second look on,
    which the page's policy forbids."""
    for _ in range(1000):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"{condition} did not come true")


def accessibility_faults(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds in the light and in the dark theme: rules, and the elements that break them."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    faults = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        wait_until(page, "theme => document.documentElement.dataset.theme === theme", theme)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)")
        faults += [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]
    return faults


def fits_a_phone(page: Page) -> bool:
    """Whether nothing has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"])


class Watch:
    """Collects whatever a page should not do."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.problems: list[str] = []
        self.expected: list[str] = []
        self.address = address
        context.on("console", self._console)
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        self.pending: set[Request] = set()
        context.on("request", self._request)
        for end in ("requestfinished", "requestfailed"):
            context.on(end, self._answered)

    def _console(self, message: ConsoleMessage) -> None:
        fine = message.type in ("log", "info", "debug") or HARMLESS in message.text
        if not fine and not any(part in message.text for part in self.expected):
            self.problems.append(f"{message.type}: {message.text}")

    def _answered(self, request: Request) -> None:
        self.pending.discard(request)

    def _request(self, request: Request) -> None:
        self.pending.add(request)
        if not request.url.startswith((self.address, "blob:", "about:", "data:")):
            self.problems.append(f"request to {request.url}")


class Viewer:
    """A page of the viewer, with the few gestures that tests repeat."""

    def __init__(self, page: Page, address: str, watch: Watch) -> None:
        self.page = page
        self.address = address
        self.watch = watch

    def open(self, route: str = "") -> Page:
        """Go to a route and wait until it shows a page or an error."""
        self.page.goto("about:blank")
        self.watch.pending.clear()  # what the page left behind had asked for
        self.page.goto(self.address + route)
        self.page.wait_for_selector("main, .problem")
        return self.page

    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def wait_for_hash(self, part: str) -> None:
        wait_until(self.page, "part => location.hash.includes(part)", part)

    def picture(self, which: int = 0) -> bytes:
        """The scatter once it is at rest: the same after a few more frames.

        Two things used to redraw it late. Browsers load a font when its first glyph is drawn, and the Greek one of the
        axes' λ arrives after the first picture: canvases are now redrawn when a font has loaded. And the camera took
        over the rounded numbers of the address after the address had changed: now it does so before.
        """
        scene = self.page.locator(".scene").nth(which)
        frames = "for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame)"
        picture = b""
        for _ in range(20):
            self.wait_for_data()
            self.page.evaluate(f"async () => {{ {frames} }}")
            before, picture = picture, scene.screenshot()
            if picture == before and not self.watch.pending:
                return picture
        raise AssertionError("the picture does not come to rest")

    def wait_for_data(self) -> None:
        """Wait until all requests are answered and fonts loaded.

        Playwright's "networkidle" adds half a second of silence, which the repeated picture makes unnecessary.
        """
        for _ in range(1000):
            if self.page.evaluate("() => document.fonts.status === 'loaded'") and not self.watch.pending:
                return
            self.page.wait_for_timeout(10)
        raise AssertionError(f"no answer to {[request.url for request in self.watch.pending]}")

    def pixels(self, picture: bytes) -> np.ndarray:
        """Red, green and blue of a picture's pixels, 0 to 255."""
        size, content = self.page.evaluate(DECODE, base64.b64encode(picture).decode())
        return np.frombuffer(base64.b64decode(content), dtype=np.uint8).reshape(*size, 4)[..., :3].astype(int)

    def csv(self) -> list[list[str]]:
        """The table that the page's CSV button downloads."""
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="CSV").click()
        content = download.value.path().read_text(encoding="utf-8")
        return list(csv.reader(io.StringIO(content, newline="")))

    def sweep(self, wanted: str, steps: int = 24) -> tuple[float, float]:
        """Move the pointer over the picture until something appears; returns the place."""
        place = self.page.evaluate(SWEEP, [wanted, steps])
        assert place is not None, f"nothing like {wanted} anywhere on the picture"
        self.page.mouse.move(*place)
        self.page.wait_for_selector(wanted)
        return tuple(place)
