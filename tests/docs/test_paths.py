"""Source files of the models and of training that the pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
NAMED = re.compile(r"`((?:model|train)/[a-z_/]+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page):
    missing = [name for name in NAMED.findall(page.read_text()) if not (ROOT / "quadric" / name).is_file()]
    assert not missing


def test_the_pattern_finds_the_files_of_a_step():
    named = set(NAMED.findall((ROOT / "docs" / "architecture.md").read_text()))
    assert {"train/learner.py", "model/bilinear.py", "model/fast/kernel.py"} <= named
