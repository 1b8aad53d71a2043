"""docs/stability.md and the changelog name the versions that the program has."""

import re
from pathlib import Path

import pytest

from quadric.data import storage as cache_storage
from quadric.evidence import storage
from quadric.model import storage as dictionaries
from quadric.run import config as run
from quadric.studies.sweep import config as sweep
from quadric.version import __version__
from quadric.viewer import schema

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("autoencoder", dictionaries.FORMAT_VERSION),
        ("run", run.FORMAT_VERSION),
        ("sweep", sweep.FORMAT_VERSION),
        ("activation cache", cache_storage.FORMAT),
        ("evidence", storage.FORMAT_VERSION),
        ("site", schema.SCHEMA_VERSION),
    ],
)
def test_the_version_of_every_file_format_is_the_programs(file: str, version: int) -> None:
    (row,) = re.findall(rf"^\| {file}(?: \([^|]*\))? \| (?:schema )?(\d+)(?: \([^|]*\))? \|", PAGE, re.MULTILINE)
    assert int(row) == version


def test_the_changelog_and_the_citation_have_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE)
    assert newest[0][0] == __version__
    assert [date for _, date in newest] == sorted((date for _, date in newest), reverse=True)
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
