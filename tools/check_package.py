"""Build wheel and source package, install them into empty environments, and use them outside the checkout.

    python tools/check_package.py [--all] [--keep FOLDER]

The wheel is made from the source package, so both are checked. In a new environment and an empty folder: `quadric demo
--help`, a fit on a tensor, loading it again, and `quadric view` of a small site, whose viewer must be inside the wheel.

This runs on the Python that runs the script. On the other supported ones that the machine has (on the PATH or in
~/.pyenv), the wheel is installed without torch, whose build for each of them is gigabytes large; all modules are
compiled and every command shows its help, which needs no torch. With --all they get torch and the whole check.
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


def other_interpreters() -> list[str]:
    """One interpreter of every other supported version that this machine has."""
    found = []
    for version in SUPPORTED:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        if installed:  # before the PATH, on which pyenv has a python of every version, whether it is switched on or not
            found.append(str(installed[-1]))
        elif on_path := shutil.which(f"python{version}"):
            found.append(on_path)
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
    assert "quadric/viewer/static/index.html" in names, "the wheel has no viewer"
    data = {"quadric/evidence/concepts/words.toml", "quadric/studies/probing/catalogue.toml"}
    assert {"quadric/py.typed", *data} <= set(names)
    outside = [name for name in names if not name.startswith(("quadric/", "quadric-"))]
    assert not outside, f"the wheel installs {outside[:3]}"
    return wheel


def use(wheel: Path, interpreter: str, folder: Path) -> None:
    """Install the wheel with torch for one interpreter, and run it in an empty folder."""
    python, place = _environment(interpreter, folder)
    _pip(python, "install", _tested_torch(), wheel)
    shown = _run([python.parent / "quadric", "demo", "--help"], place)
    assert "--out" in shown
    print(_run([python, "-c", PROGRAM], place).splitlines()[-1])


def look_at(wheel: Path, interpreter: str, folder: Path) -> None:
    """Install the wheel without torch for one interpreter, compile all of it, and ask every command for help."""
    python, place = _environment(interpreter, folder)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    _pip(python, "install", *(each for each in needed if "extra ==" not in each and not each.startswith("torch")))
    _pip(python, "install", "--no-deps", wheel)
    installed = _run([python, "-c", "import quadric; print(quadric.__path__[0])"], place).strip()
    _run([python, "-W", "error", "-m", "compileall", "-q", installed], place)
    commands = _run([python, "-c", "import quadric.cli; print(*quadric.cli.COMMANDS)"], place).split()
    for command in commands:
        assert "--help" in _run([python, "-m", "quadric", command, "--help"], place)
    version = _run([python, "--version"], place).strip()
    print(f"{version}: {len(commands)} commands show their help; torch was left out")


def _environment(interpreter: str, folder: Path) -> tuple[Path, Path]:
    """The Python of a new environment, and an empty folder."""
    subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
    (folder / "elsewhere").mkdir()
    return folder / "venv" / "bin" / "python", folder / "elsewhere"


def _run(command: list[str | Path], folder: Path) -> str:
    """What a command prints, without the checkout on Python's path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _tested_torch() -> str:
    """The version of torch that was tested; the newest may be another."""
    return next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))


def _pip(python: Path, *arguments: str | Path) -> None:
    command = [python, "-m", "pip", *arguments[:1], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build wheel and source package, and use them in empty environments.")
    parser.add_argument("--all", action="store_true", help="install torch for every interpreter, which takes gigabytes")
    parser.add_argument("--keep", type=Path, help="folder to keep wheel and source package in")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = build(Path(name))
        use(made, sys.executable, Path(name))
        for each in other_interpreters():
            with tempfile.TemporaryDirectory() as place:
                (use if given.all else look_at)(made, each, Path(place))
        if given.keep:
            shutil.copytree(made.parent, given.keep, dirs_exist_ok=True)
