"""Write requirements-dev.lock: every version in constraints.txt with the hash of its wheel on PyPI.

    python tools/lock_requirements.py

The hashes are those of the wheels for this Python and platform, as pip itself reports them; torch is left out, see
docs/reliability.md. Run it on Linux x86-64 with CPython 3.11, the platform of the locked environment.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.lock"
LEFT_OUT = ("torch",)
HEADER = """\
# The locked development environment: CPython 3.11 on Linux x86-64, all packages but torch (docs/reliability.md).
# Made by: python tools/lock_requirements.py. Installed by: make locked
"""


def pinned() -> list[str]:
    """The requirements of constraints.txt that are locked."""
    lines = [line.strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#") and line.split("==")[0] not in LEFT_OUT]


def report(requirements: list[str]) -> list[dict[str, object]]:
    """What pip would install from PyPI alone, whatever other indexes this machine is set up with."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_CERT": os.environ.get("PIP_CERT", "")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        command += ["--only-binary=:all:", "--report", str(path)]
        subprocess.run([*command, *requirements], check=True, env={k: v for k, v in environment.items() if v})
        found: list[dict[str, object]] = json.loads(path.read_text())["install"]
    return found


def locked(found: list[dict[str, object]]) -> str:
    """The lines of the lock, sorted by name."""
    lines = []
    for each in found:
        metadata, download = each["metadata"], each["download_info"]
        assert isinstance(metadata, dict)
        assert isinstance(download, dict)
        digest = download["archive_info"]["hashes"]["sha256"]
        lines.append(f"{metadata['name']}=={metadata['version']} --hash=sha256:{digest}")
    return HEADER + "\n".join(sorted(lines, key=str.lower)) + "\n"


if __name__ == "__main__":
    LOCK.write_text(locked(report(pinned())))
    print(f"wrote {LOCK}")
