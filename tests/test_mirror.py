"""Every source file has a test file of its own, or a named one that tests it.

`quadric/geometry/spectra.py` is tested by `tests/geometry/test_spectra.py`. A file that is missing here fails with the
line to add; a line that is no longer needed fails as well, so the list stays short.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

COVERED_BY: dict[str, str] = {
    # Settings, records and errors: tested through the code that reads them.
    "data/settings": "cli/test_flags",
    "data/storage": "data/test_harvesting",
    "_io/progress": "cli/test_progress",
    "model/dictionary": "model/test_settings",
    "model/processes": "train/test_distributed",
    "model/fast/sparse": "model/test_mixing",
    "model/fast/newton_schulz": "train/test_sparse_muon",
    "model/provenance": "model/test_storage",
    "evidence/concepts/words": "cli/test_concepts",
    "evaluation/settings": "cli/test_flags",
    "evidence/endpoints": "evidence/test_labelling",
    "version": "cli/test_main",
    # Parts of one function, which is tested as a whole.
    "evidence/finishing": "evidence/test_collecting",
    "geometry/dictionary": "geometry/test_spectra",
    "train/optimizers": "train/test_muon",
    "explanations/record": "explanations/test_explaining",
    "interop/saelens": "interop/real_packages/test_saelens",
    "studies/probing/report": "studies/probing/test_results",
    "studies/planning/terminal": "cli/test_plan",
    "studies/reports/evaluations": "cli/test_evaluate",
    "studies/reports/explanations": "explanations/test_terminal",
    "studies/steering/results": "studies/steering/test_curve",
    # Pipelines and flags: tested through the command that runs them.
    "__main__": "cli/test_main",
    "cli/ablate": "cli/test_steer",
    "cli/demo": "run/test_demonstration",
    "cli/figures": "studies/figures/test_drawing",
    "evidence/concepts/finding": "cli/test_concepts",
    "run/evidence": "run/test_demonstration",
    "studies/probing/files": "cli/test_probe",
    "studies/steering/of_run": "cli/test_steer",
    "studies/steering/terminal": "cli/test_steer",
    "studies/probing/of_runs": "cli/test_probe",
    "run/sites": "cli/test_site",
    "studies/sweep/sweeping": "cli/test_sweep",
    # Every figure is drawn from the same sweep, which is made once.
    "studies/figures/figure_data": "studies/figures/test_drawing",
    "studies/figures/latents": "studies/figures/test_drawing",
    "studies/figures/receptive_fields": "studies/figures/test_drawing",
    "studies/figures/similarity": "studies/figures/test_drawing",
    "studies/figures/style": "studies/figures/test_drawing",
}
"""Source without a test file of its own, and the test file that covers it."""


def source_files() -> list[str]:
    package = ROOT / "quadric"
    paths = (path.relative_to(package).with_suffix("") for path in sorted(package.rglob("*.py")))
    return [path.as_posix() for path in paths if path.name != "__init__"]


def own_test(source: str) -> Path:
    folder, name = Path(source).parent, Path(source).name
    return ROOT / "tests" / folder / f"test_{name.lstrip('_')}.py"


@pytest.mark.parametrize("source", source_files())
def test_every_source_file_has_a_test_file(source: str) -> None:
    assert own_test(source).is_file() or source in COVERED_BY, (
        f"quadric/{source}.py has no {own_test(source).relative_to(ROOT)}; write it, or name the file that tests it: "
        f'add "{source}": "FOLDER/test_NAME" to COVERED_BY'
    )


@pytest.mark.parametrize("source", COVERED_BY)
def test_the_list_of_exceptions_is_up_to_date(source: str) -> None:
    assert (ROOT / "quadric" / f"{source}.py").is_file(), f"quadric/{source}.py is gone; delete its line"
    assert not own_test(source).is_file(), f"{own_test(source).relative_to(ROOT)} exists; delete the line of {source}"
    covering = ROOT / "tests" / f"{COVERED_BY[source]}.py"
    assert covering.is_file(), f"{covering.relative_to(ROOT)} is gone; name the file that tests quadric/{source}.py"
