"""The whole reproduction on a tiny model: every stage runs, finished stages are not repeated, gaps are reported."""

import importlib
import sys
from pathlib import Path

import pytest

from tests.tiny_runs import make_tiny_world

ROOT = Path(__file__).parents[1]
SIZES = (
    "--n-latents 24 --atoms-per-latent 4.8 --steps 4 --sequences-per-step 4 --held-out-tokens 200 "
    "--block-length 32 --sequences-per-forward 2 --device cpu"
)
PLANTED = (
    "--d-model 12 --manifolds 2 --active 2 --latents 16 --subspaces 16 --topk-active 4 --steps 8 --batch 64 --seeds 1"
)


@pytest.fixture(scope="module")
def scripts() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def test_page_without_results_reports_every_claim_as_not_measured(scripts: None, tmp_path: Path) -> None:
    claims = importlib.import_module("paper_claims")
    page = claims.claims_page(tmp_path, tmp_path / "sweep", [], {})
    assert "No sweep has been measured yet" in page
    assert page.count(claims.NOT_YET) == len(claims.CLAIMS)


@pytest.mark.slow
def test_full_reproduction_writes_the_page_of_claims(
    scripts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce, claims = importlib.import_module("reproduce"), importlib.import_module("paper_claims")
    world = make_tiny_world(tmp_path / "world")
    model = world / "tiny-llama"
    more = "--document-separator '\n\n'"
    options = reproduce.parsed(
        [
            *("--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")),
            *(
                "--alphas",
                "0 0.3",
                "--seeds",
                "0 1",
                "--n-active",
                "4",
                "--sizes",
                SIZES,
                "--more",
                more,
                "--model",
                str(model),
            ),
            *("--corpus", str(world / "text.txt"), "--planted", PLANTED),
        ]
    )
    reproduce.run(options)
    page = (tmp_path / "results" / "claims.md").read_text()
    unmeasured = [line for line in page.splitlines() if claims.NOT_YET in line]
    assert unmeasured == []
    assert (options.layers, options.main_layer) == ("1,2,3", "2")  # of four layers
    assert "of 4 (layer, seed) pairs" in page
    assert "layer 3 default" in page
    assert "tiny-llama, d = 32, k = 24" in page
    for name in claims.DRAWN:
        drawn = (tmp_path / "results" / f"{name}.svg").is_file()
        is_absent = name == "random_latents" or name in claims.OF_NO_MODEL  # after four steps all latents are dense
        assert drawn is not is_absent
    assert not list((tmp_path / "results").glob("*.png"))
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    reproduce.run(options)
    assert capsys.readouterr().err == ""
    changed = {path.name for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert changed == {"claims.md"}
