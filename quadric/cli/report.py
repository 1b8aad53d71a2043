"""`quadric report`: the weights-only account of every latent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Report:
    """Say what the weights of a run tell about its latents; no language model and no data are needed.

    Example: quadric report runs/demo --out report.html latents.parquet
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder made by save_pretrained, or a hub id."""
    out: tuple[Path, ...] = ()
    """Files to write: a page (.html), everything as JSON (.json), or the table of latents (.parquet)."""
    json: bool = False
    """Print everything as JSON instead of tables."""
    top: int = 20
    """How many of the most important latents to print."""
    tolerance: float = 1e-3
    """Share of a latent's largest |λ| below which an eigenvalue counts as zero for its shape."""

    def run(self) -> int:
        import json
        import sys

        from rich.console import Console

        from quadric.cli.counted_progress import counted_progress
        from quadric.geometry.dictionary import require_bilinear
        from quadric.geometry.shapes import check_tolerance
        from quadric.reports.files import check_report_paths, write_report
        from quadric.reports.run_report import report_on
        from quadric.reports.terminal import report_in_terminal
        from quadric.runs.folder import load
        from quadric.runs.geometry import known_geometry

        if self.top < 1:
            raise ValueError(f"top={self.top} is not positive; give how many latents to print")
        check_tolerance(self.tolerance)
        check_report_paths(self.out)
        autoencoder = require_bilinear(load(self.run_folder))
        with counted_progress("spectra", autoencoder.n_latents) as advance:
            known = known_geometry(self.run_folder, autoencoder)
            report = report_on(self.run_folder, autoencoder, self.tolerance, advance, known)
        if self.json:
            json.dump(report.as_json(), sys.stdout, ensure_ascii=False, allow_nan=False)
            print()
        else:
            Console().print(report_in_terminal(report, self.top))
        for path in self.out:
            write_report(report, path)
            print(f"wrote {path}", file=sys.stderr)
        return 0
