"""One browser and one synthetic site for all tests of the viewer."""

from contextlib import ExitStack

import pytest
from playwright.sync_api import sync_playwright

from tests.viewer.browser import Viewer, Watch, launch, served
from tests.viewer.synthetic import write_synthetic_site


@pytest.fixture(scope="session")
def site_on_disk(tmp_path_factory):
    return write_synthetic_site(
        tmp_path_factory.mktemp("viewer") / "site", n_latents=40, n_points=300, n_dictionaries=2
    )


@pytest.fixture(scope="session")
def address(site_on_disk):
    with served(site_on_disk) as running:
        yield running


@pytest.fixture(scope="session")
def playwright():
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright):
    running = launch(playwright)
    yield running
    running.close()


@pytest.fixture
def serve():
    """Serves any folder until the test is over."""
    with ExitStack() as running:
        yield lambda folder: running.enter_context(served(folder))


@pytest.fixture
def open_viewer(browser, serve):  # after serve, so that pages are closed before their server hangs up on them
    """Makes viewers of any site and size; afterwards, none may have misbehaved."""
    opened = []

    def make(address, other_browser=None, **settings):
        size = settings.pop("viewport", {"width": 1360, "height": 900})
        settings = {"reduced_motion": "reduce", "accept_downloads": True} | settings
        context = (other_browser or browser).new_context(viewport=size, **settings)
        watch = Watch(context, address)
        context.set_default_timeout(10_000)
        opened.append((context, watch))
        return Viewer(context.new_page(), address, watch)

    yield make
    problems = []
    for context, watch in opened:
        context.close()
        problems += watch.problems
    assert problems == []


@pytest.fixture
def viewer(open_viewer, address):
    return open_viewer(address)
