"""Settings of every test process, and the marks `unit`, `browser` and `slow`."""

import pytest
import torch
from hypothesis import settings

from tests.shape_checks import check_once

check_once()

settings.register_profile("quadric", deadline=None)  # a busy machine is no failure
settings.load_profile("quadric")

# One thread per test process: the tensors are small, and waiting for other threads costs more than it saves.
torch.set_num_threads(1)

BROWSER_FIXTURES = {"browser", "playwright"}


@pytest.hookimpl(tryfirst=True)  # before pytest selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test, and move files with slow or browser tests to the front.

    A long file that starts last would leave the other test process idle until it ends.
    """
    for item in items:
        if BROWSER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("browser")
        if not {"browser", "slow"} & {mark.name for mark in item.iter_markers()}:
            item.add_marker("unit")
    long_files = {item.path for item in items if {"slow", "browser"} & {mark.name for mark in item.iter_markers()}}
    items.sort(key=lambda item: item.path not in long_files)
