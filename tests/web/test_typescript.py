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


TSC = ("node_modules/typescript/bin/tsc", "--noEmit")


def test_types_of_sources_and_tests_hold():
    node(*TSC)


def test_the_type_check_reads_every_source_and_every_test():
    """A test file outside of `include` would never be checked."""
    listed = set(node(*TSC, "--listFilesOnly").splitlines())
    files = [path for folder in ("src", "tests") for path in (WEB / folder).rglob("*.ts*")]
    assert [str(path) for path in files if str(path) not in listed] == []


def test_tests_mirror_the_sources():
    """tests/scene/camera.test.ts is about src/scene/camera.ts."""
    for path in (WEB / "tests").rglob("*.test.ts"):
        source = WEB / "src" / path.relative_to(WEB / "tests").parent / path.name.replace(".test.ts", ".ts")
        assert source.is_file(), f"{path.name} has no source {source}"


def test_the_unit_tests_pass():
    files = sorted(str(path.relative_to(WEB)) for path in (WEB / "tests").rglob("*.test.ts"))
    assert len(files) >= 10
    report = node("--test", "--test-reporter=tap", *files)
    assert "\n# fail 0\n" in report


def test_the_assets_in_place_were_built_from_these_sources():
    assert build_assets.is_fresh(), "the viewer's sources changed after it was built; run make"


def test_the_application_is_small():
    import gzip

    assets = build_assets.STATIC / "assets"
    size = sum(len(gzip.compress((assets / name).read_bytes())) for name in ("app.js", "app.css"))
    assert size <= 60_000
