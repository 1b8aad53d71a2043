"""Models and texts small enough for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers.utils import logging

from tests.data.tiny import save_tiny


@pytest.fixture(autouse=True, scope="session")
def quiet_transformers() -> Iterator[None]:
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama on disk."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 40 short texts of different lengths."""
    folder = tmp_path_factory.mktemp("texts")
    for number in range(40):
        words = [f"word{(number * 7 + place * 3) % 50}" for place in range(3 + number % 11)]
        (folder / f"{number:02d}.txt").write_text(f"Document {number}: {' '.join(words)}.", encoding="utf-8")
    return folder
