"""A small run and its explainer, made once."""

from pathlib import Path

import pytest

from quadric.explanations import Explainer
from quadric.run.viewing import run_explainer
from tests.explanations.small_run import make_small_run


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_run(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def explainer(small_run: Path) -> Explainer:
    return run_explainer(small_run, model=str(small_run.parent / "tiny"), device="cpu")
