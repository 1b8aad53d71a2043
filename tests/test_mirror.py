"""Every source file has a test file of its own, or a named one that tests it.

`quadric/geometry/spectra.py` is tested by `tests/geometry/test_spectra.py`. A file that is missing here fails with the
line to add; a line that is no longer needed fails as well, so the list stays short.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

COVERED_BY: dict[str, str] = {
    # Settings, records and errors: tested through the code that reads them.
    "activations/batches": "activations/test_live_stream",
    "activations/config": "activations/test_live_stream",
    "activations/manifest": "activations/test_harvesting",
    "activations/settings": "cli/test_flags",
    "activations/shards": "activations/test_harvesting",
    "_progress": "runs/test_fitting",
    "activations/row_streams": "activations/test_sources",
    "activations/model_errors": "activations/test_models",
    "autoencoders/autoencoder": "autoencoders/test_bilinear",
    "autoencoders/checks": "autoencoders/test_bilinear",
    "autoencoders/provenance": "autoencoders/test_io",
    "concepts/words": "cli/test_concepts",
    "corpus/config": "corpus/test_local_files",
    "corpus/sources": "corpus/test_local_files",
    "evaluation/record": "evaluation/test_measures",
    "evaluation/settings": "cli/test_flags",
    "reports/facts": "reports/test_page",
    "runs/planning": "cli/test_plan",
    "runs/scales": "cli/test_flags",
    "evidence/endpoints": "evidence/test_labelling",
    "training/config": "training/test_loop",
    "version": "cli/test_main",
    # Parts of one function, which is tested as a whole.
    "evidence/finishing": "evidence/test_collecting",
    "geometry/dictionary": "geometry/test_spectra",
    "site/checking": "site/test_writer",
    "site/notebook_points": "site/test_notebook",
    "site/token_search": "site/test_export",
    "training/counting": "training/test_cost",
    "training/machine": "training/test_plan",
    "training/optimizers": "training/test_muon",
    "explanations/files": "explanations/test_page",
    "explanations/record": "explanations/test_explaining",
    "explanations/terminal": "explanations/test_page",
    "interop/reading/weights": "interop/reading/test_saelens",
    "interop/saelens": "interop/real_packages/test_saelens",
    "interop/writing/saebench": "interop/test_saebench",
    "live/session": "live/test_app",
    "probing/record": "probing/test_summary",
    "probing/report": "probing/test_summary",
    # Pipelines and flags: tested through the command that runs them.
    "__main__": "cli/test_main",
    "cli/ablate": "cli/test_steer",
    "cli/activation_flags": "cli/test_flags",
    "cli/demo": "runs/test_demonstration",
    "cli/figures": "figures/test_drawing",
    "cli/scale_flags": "cli/test_flags",
    "concepts/finding": "cli/test_concepts",
    "concepts/reading": "cli/test_concepts",
    "evaluation/evaluating": "cli/test_evaluate",
    "evaluation/files": "cli/test_evaluate",
    "runs/evidence": "runs/test_demonstration",
    "probing/files": "cli/test_probe",
    "steering/files": "cli/test_steer",
    "steering/of_run": "cli/test_steer",
    "runs/explaining": "cli/test_explain",
    "runs/live": "live/test_serving",
    "runs/sites": "cli/test_site",
    "sweep/groups": "cli/test_sweep",
    "sweep/rows": "cli/test_sweep",
    "sweep/sweeping": "cli/test_sweep",
    # Every figure is drawn from the same sweep, which is made once.
    "figures/ablation": "figures/test_drawing",
    "figures/captured": "figures/test_drawing",
    "figures/figure_data": "figures/test_drawing",
    "figures/probing": "cli/test_probe",
    "figures/random_latents": "figures/test_drawing",
    "figures/receptive_fields": "figures/test_drawing",
    "figures/receptive_gap": "figures/test_drawing",
    "figures/series": "figures/test_widths",
    "figures/similarity": "figures/test_drawing",
    "figures/stability": "figures/test_drawing",
    "figures/style": "figures/test_drawing",
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
