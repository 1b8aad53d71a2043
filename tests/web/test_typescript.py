"""The viewer's own tests: its types hold, and its pure functions do what they say."""

import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"
sys.path.insert(0, str(WEB))
import build_assets  # noqa: E402


def node(*arguments: str) -> str:
    command, _ = build_assets.node_commands()
    done = subprocess.run([*command, *arguments], cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_types_hold():
    node("node_modules/typescript/bin/tsc", "--noEmit")


def test_the_unit_tests_pass():
    files = sorted(str(path.relative_to(WEB)) for path in (WEB / "tests").glob("*.test.ts"))
    assert len(files) >= 6
    report = node("--test", "--test-reporter=tap", *files)
    assert "\n# fail 0\n" in report


def test_the_assets_in_place_were_built_from_these_sources():
    assert build_assets.is_fresh(), "the viewer's sources changed after it was built; run make"


def test_the_application_is_small():
    import gzip

    assets = build_assets.STATIC / "assets"
    size = sum(len(gzip.compress((assets / name).read_bytes())) for name in ("app.js", "app.css"))
    assert size <= 60_000
