"""Links between pages lead to files and headings that exist, and so do the source files that pages name."""

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{ *#([\w-]+) *\})?$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)#([^)\s]+)\)")

PACKAGE = ROOT / "quadric"
WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
ROOMS = "|".join(sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
SOURCE = re.compile(rf"`(?:quadric/)?((?:{ROOMS})/[\w/]+\.py)`((?:,? `[A-Za-z_]+(?:\.(?!py`)[a-z_]+)?`)*)")
OTHER_SOURCE = re.compile(r"`((?:tests|benchmarks|tools)/[\w/.-]+\.(?:py|md|csv|json))(?:::\w+)?`")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors that mkdocs gives the headings of a page; a repeated heading gets a number."""
    found: list[str] = []
    for title, given in HEADING.findall(without_code(text)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        base = given or slugify(plain, "-")
        found.append(base if base not in found else f"{base}_{found.count(base)}")
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_anchor_exists(page: Path) -> None:
    for target, anchor in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        linked = (page.parent / target).resolve() if target else page
        if linked.suffix == ".md" and ":::" not in linked.read_text(encoding="utf-8"):
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{target}#{anchor}"


def test_anchors_are_made_as_mkdocs_makes_them() -> None:
    text = "# The `quadric` way\n## What is promised\n```\n## no heading\n```\n## What is promised\n### Mine {#own}"
    assert anchors(text) == {"the-quadric-way", "what-is-promised", "what-is-promised_1", "own"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_local_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def named(text: str) -> list[tuple[str, list[str]]]:
    """Every file of the package that a page names, with the functions and classes that follow its name."""
    return [(file, re.findall(r"`([\w.]+)`", names)) for file, names in SOURCE.findall(text)]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_source_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [file for file, _ in named(text) if not (PACKAGE / file).is_file()] == []
    assert [file for file in OTHER_SOURCE.findall(text) if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_functions_are_in_their_files(page: Path) -> None:
    for file, names in named(page.read_text(encoding="utf-8")):
        source = (PACKAGE / file).read_text(encoding="utf-8")
        assert [name for name in names if not re.search(rf"(?:def|class) {name.split('.')[-1]}\b", source)] == [], file


def test_source_files_and_functions_are_found() -> None:
    text = "`model/fast/latents.py` `strongest`, `latent_errors`, and `quadric/train/loop.py`"
    assert named(text) == [("model/fast/latents.py", ["strongest", "latent_errors"]), ("train/loop.py", [])]
    assert OTHER_SOURCE.findall("`tests/model/test_lens.py::test_it`") == ["tests/model/test_lens.py"]
