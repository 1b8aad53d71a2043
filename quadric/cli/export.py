"""`quadric export`: a dictionary in the format of another tool."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from quadric.cli.flags import OptionalText
from quadric.cli.invocation import announce
from quadric.cli.output import say


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a dictionary in the format of another tool, and print the Python that loads it.

    Example: quadric export runs/demo --to saelens --out exported/saelens
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder, folder made by save_pretrained, or a hub id."""
    to: Literal["saelens"]
    """The tool."""
    out: Path
    """Folder to write: new, empty, or an earlier export for the same tool, which is replaced."""
    name: OptionalText = None
    """Which autoencoder, if the run has several."""
    model_name: OptionalText = None
    """Name of the language model in that tool; by default the recorded one."""

    def run(self) -> int:
        announce("export", f"loading {self.run_folder}")
        from quadric.runs.exporting import export

        found = export(self.run_folder, to=self.to, out=self.out, name=self.name, model_name=self.model_name)
        size = sum((found.folder / file).stat().st_size for file in found.files)
        say(f"Wrote {found.folder} for {found.to}: {len(found.files)} files, {size / 1e6:,.1f} MB. Load it with:")
        say(found.load)
        return 0
