"""A tiny sweep with all the data that the figures need."""

from pathlib import Path

import pytest

from quadric.cli import main
from quadric.studies.figures import FigureData, read_figure_data
from tests.tiny_runs import make_tiny_world, sweep_command


@pytest.fixture(scope="session")
def drawn_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def sweep_folder(drawn_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, all kinds and two seeds; and three alphas at layer 2."""
    folder = tmp_path_factory.mktemp("sweeps") / "all"
    kinds = ("--prior", "atomic", "composite", "quadratic", "topk")
    assert main(sweep_command(drawn_world, folder, *kinds, "--seeds", "0", "1")) == 0
    more = ("--prior", "composite", "quadratic", "--layers", "2", "--alpha", "0", "0.3", "0.7")
    assert main(sweep_command(drawn_world, folder, *more)) == 0
    return folder


@pytest.fixture(scope="session")
def data(sweep_folder: Path) -> FigureData:
    return read_figure_data([sweep_folder])
