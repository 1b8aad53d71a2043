"""What several files here read."""

import pytest

from tests.interop.exported_run import Observed, observe


@pytest.fixture(scope="session")
def observed() -> Observed:
    return observe()
