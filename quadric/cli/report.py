"""`quadric report`: what the weights say about every latent."""

from dataclasses import dataclass
from functools import partial

from quadric.cli.flags import Paths, RunCommand
from quadric.cli.output import say_json, write_results


@dataclass(frozen=True, kw_only=True)
class Report(RunCommand):
    """Describe the latents of a run from its weights alone; no language model and no data are needed.

    Labels are shown beside the numbers if the run has evidence (quadric site collects it).

    Example: quadric report runs/demo --out report.json latents.csv
             quadric report runs/grid --name resid_pre.15-composite-k1024-density0.002-alpha0.3-seed0
    """

    out: Paths = ()
    """Files to write: everything as JSON (.json), or the table of latents (.csv)."""
    top: int = 20
    """How many of the most important latents to print."""
    tolerance: float = 0.01
    """Share of a latent's variance that each part left out of its shape may have."""

    def run(self) -> int:
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.geometry.shapes import check_tolerance
        from quadric.studies.reports.run_report import report_on_run, write_report
        from quadric.studies.reports.terminal import report_in_terminal

        if self.top < 1:
            raise ValueError(f"top={self.top} is not positive; give how many latents to print")
        check_tolerance(self.tolerance)
        check_endings(self.out)
        with progress() as display:
            options = self.options("run_folder", "out", "json", "top")
            report = report_on_run(self.run_folder, **options, on_progress=display.report)
        if self.json:
            say_json(report.as_json())
        else:
            safe_console().print(report_in_terminal(report, self.top))
        write_results(self.out, partial(write_report, report))
        return 0
