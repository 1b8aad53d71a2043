"""Build wheel and source package, install each into an empty environment, and use it outside the checkout.

    python tools/check_package.py [--python PYTHON …] [--keep FOLDER]

The wheel is made from the source package, so both are checked. It is installed into a new environment of every PYTHON;
by default of all of Python 3.11 to 3.14 that are on the PATH or in ~/.pyenv. There, in an empty folder: `quadric demo
--help`, a fit on a tensor, loading it again, and `quadric view` of a small site, whose viewer must be inside the wheel.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
PROGRAM = """
import sys, urllib.request
from pathlib import Path
import torch, quadric

assert "site-packages" in quadric.__file__, quadric.__file__
x = torch.randn(2000, 16, generator=torch.Generator().manual_seed(0))
ae = quadric.fit(x, n_latents=12, steps=10, batch_tokens=256, progress=False)
ae.save_pretrained("saved")
assert torch.equal(quadric.load("saved").left, ae.left)
print(quadric.evaluate(ae, x))
evidence = quadric.collect_evidence(ae, x, points=50, progress=False)
folder = quadric.export_site(ae, evidence, "site", with_map=False)
with quadric.view(folder, wait=False, open_browser=False, port=0) as viewer:
    page = urllib.request.urlopen(viewer.address.split("#")[0], timeout=10).read().decode()
    assert "<script" in page and "Quadric" in page, page[:200]
print("quadric", quadric.__version__, "works on Python", sys.version.split()[0])
"""


def interpreters() -> list[str]:
    """One interpreter of every supported version that this machine has."""
    found = []
    for version in SUPPORTED:
        installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        if on_path := shutil.which(f"python{version}"):
            found.append(on_path)
        elif installed:
            found.append(str(installed[-1]))
    return found


def build(folder: Path) -> Path:
    """The wheel, made from the source package; a viewer that does not build is an error."""
    environment = {**os.environ, "QUADRIC_REQUIRE_WEB": "1"}
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    python = tools / "bin" / "python"
    _pip(python, "install", "build")
    run = [python, "-m", "build", "--outdir", folder / "dist", ROOT]  # first the sdist, then the wheel from it
    subprocess.run(run, check=True, env=environment, stdout=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "quadric/site/static/index.html" in names, "the wheel has no viewer"
    assert "quadric/py.typed" in names
    outside = [name for name in names if not name.startswith(("quadric/", "quadric-"))]
    assert not outside, f"the wheel installs {outside[:3]}"
    return wheel


def use(wheel: Path, interpreter: str, folder: Path) -> None:
    """Install the wheel for one interpreter and run it in an empty folder."""
    subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    _pip(python, "install", _tested_torch(), wheel)
    place = folder / "elsewhere"
    place.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    help_page = [folder / "venv" / "bin" / "quadric", "demo", "--help"]
    shown = subprocess.run(help_page, cwd=place, env=clean, check=True, capture_output=True, text=True).stdout
    assert "--out" in shown
    subprocess.run([python, "-c", PROGRAM], cwd=place, env=clean, check=True)


def _tested_torch() -> str:
    """The version of torch that was tested; the newest may be another."""
    return next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))


def _pip(python: Path, *arguments: str | Path) -> None:
    command = [python, "-m", "pip", *arguments[:1], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", help="interpreters; by default every supported one that is found")
    parser.add_argument("--keep", type=Path, help="folder to keep wheel and source package in")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = build(Path(name))
        for each in given.python or interpreters():
            with tempfile.TemporaryDirectory() as place:
                use(made, each, Path(place))
        if given.keep:
            shutil.copytree(made.parent, given.keep, dirs_exist_ok=True)
