"""`quadric compare`: how much runs agree, from weights alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare runs pair by pair: Sim_F, Sim_H and more, each beside what chance would give.

    Example: quadric compare runs/a runs/b runs/c --out similarity.png
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN RUN [RUN ...]")]
    """Folders made by save_pretrained, or hub ids."""
    out: tuple[Path, ...] = ()
    """Files to write: heat maps (.png), or everything as JSON (.json)."""
    json: bool = False
    """Print everything as JSON instead of tables."""
    force: bool = False
    """Compare even runs of different widths, models or hook points."""
    null_seed: int = 1_000_003
    """Seed of the random initializations that chance is measured with."""

    def run(self) -> int:
        import json
        import sys

        from rich.console import Console

        from quadric.cli.counted_progress import counted_progress
        from quadric.reports.files import check_comparison_paths, write_comparison
        from quadric.reports.run_comparison import compare_runs, steps_to_compare
        from quadric.reports.terminal import comparison_in_terminal
        from quadric.runs.folder import load

        if len(self.run_folders) < 2:
            raise ValueError(f"{len(self.run_folders)} run given; name at least two to compare")
        check_comparison_paths(self.out)
        autoencoders = [load(folder) for folder in self.run_folders]
        with counted_progress("comparing", steps_to_compare(len(autoencoders))) as advance:
            comparison = compare_runs(
                self.run_folders, autoencoders, null_seed=self.null_seed, force=self.force, on_progress=advance
            )
        if self.json:
            json.dump(comparison.as_json(), sys.stdout, ensure_ascii=False, allow_nan=False)
            print()
        else:
            Console().print(comparison_in_terminal(comparison))
        for path in self.out:
            write_comparison(comparison, path)
            print(f"wrote {path}", file=sys.stderr)
        return 0
