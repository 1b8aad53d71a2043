"""Source files that the pages name exist, and hold the functions and classes that stand behind their names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "quadric"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
ROOMS = "|".join(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()))
FILE = re.compile(rf"`(?:quadric/)?((?:{ROOMS})/[\w/]+\.py)`((?:,? `[A-Za-z_]+(?:\.[a-z_]+)?`)*)")
OTHER = re.compile(r"`((?:tests|benchmarks|tools)/[\w/.-]+\.(?:py|md|csv|json))(?:::\w+)?`")


def named(text: str) -> list[tuple[str, list[str]]]:
    """Every file of the package that a page names, and the names in it that follow."""
    return [(file, re.findall(r"`([\w.]+)`", names)) for file, names in FILE.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [file for file, _ in named(text) if not (PACKAGE / file).is_file()] == []
    assert [file for file in OTHER.findall(text) if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_functions_are_in_their_files(page: Path) -> None:
    missing = [
        f"{file}: {name}"
        for file, names in named(page.read_text(encoding="utf-8"))
        for name in names
        if not re.search(rf"(?:def|class) {name.rpartition('.')[2]}\b", (PACKAGE / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_the_pattern_finds_the_files_of_a_step() -> None:
    found = dict(named((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    assert {"train/learner.py", "model/bilinear.py", "model/fast/kernel.py"} <= found.keys()
    assert found["model/fast/latents.py"] == ["latent_norms"]
    assert named("`model/fast/latents.py` `strongest`, `latent_errors`") == [
        ("model/fast/latents.py", ["strongest", "latent_errors"])
    ]
