"""Write docs/licences.md: the licence of every package in constraints.txt, as its metadata states it.

    python tools/list_licences.py [REPORT]

REPORT is what pip install --dry-run --ignore-installed --no-deps --report REPORT -r constraints.txt wrote; without it,
pip is asked, which takes a minute or more. Run it in an environment with all of them (make docs), since pip's report
leaves out newer fields.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEADER = """\
# Licences of dependencies

Quadric itself is under the MIT licence. This table lists the packages of the development environment, which is larger
than what `pip install quadric` installs, with the licence that each states in its metadata. It is made by
`python tools/list_licences.py`. The licences of what is bundled with the viewer are in `assets/licences.txt` of every
site.

| package | version | licence |
|---|---|---|
"""
LONGEST = 60


def asked() -> list[dict[str, Any]]:
    """What pip knows about every pinned package."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        subprocess.run([*command, "--report", str(path), "-r", str(ROOT / "constraints.txt")], check=True)
        return read(path)


def read(path: Path) -> list[dict[str, Any]]:
    """The metadata in a report of pip."""
    return [each["metadata"] for each in json.loads(path.read_text())["install"]]


def with_installed(found: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the installed package where there is one: pip's report leaves out newer fields."""
    try:
        here = metadata(found["name"])
    except PackageNotFoundError:
        return found
    return {
        **found,
        "license_expression": here.get("License-Expression"),
        "classifier": here.get_all("Classifier") or [],
        "license": here.get("License"),
    }


def licence_of(found: dict[str, Any]) -> str:
    """The SPDX expression, else the classifiers, else the beginning of the licence field."""
    if expression := found.get("license_expression"):
        return str(expression)
    classifiers = [each.split(" :: ")[-1] for each in found.get("classifier", []) if each.startswith("License")]
    if named := [each for each in classifiers if each != "OSI Approved"]:
        return ", ".join(named)
    first = str(found.get("license") or "not stated").strip().splitlines()[0]
    return first if len(first) <= LONGEST else f"{first[:LONGEST]}…"


if __name__ == "__main__":
    every = read(Path(sys.argv[1])) if len(sys.argv) > 1 else asked()
    rows = [
        f"| {each['name']} | {each['version']} | {licence_of(with_installed(each)).replace('|', '/')} |"
        for each in every
    ]
    PAGE.write_text(HEADER + "\n".join(sorted(rows, key=str.lower)) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}: {len(rows)} packages")
