"""Links between pages lead to files and headings that exist, and so do the source files that pages name."""

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{ *#([\w-]+) *\})?$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)#([^)\s]+)\)")


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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_named_source_files_exist(page: Path) -> None:
    named = re.findall(r"`((?:model|train)/[a-z_/]+\.py)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / "quadric" / name).is_file()] == []
    assert named or page.name != "architecture.md"
