"""`quadric export`: a dictionary, or what data says about it, in the format of another tool."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from quadric.cli.flags import OptionalFloat, OptionalInt, OptionalPath, OptionalText, RunCommand
from quadric.cli.output import announce, say, say_json


@dataclass(frozen=True, kw_only=True)
class Export(RunCommand):
    """Write a dictionary, or what data says about it, in the format of another tool, and print how to load it.

    saelens and saebench get the dictionary. neuronpedia gets contexts, histograms and labels, and delphi the tokens on
    which each latent fires: both need the run's evidence (quadric site collects it) and read its activations again.

    Example: quadric export runs/demo --to saelens --out exported/saelens
             quadric export runs/demo --to delphi --out exported/delphi --quantile 0.999
    """

    to: Literal["saelens", "saebench", "neuronpedia", "delphi"]
    """The tool."""
    out: Path
    """Folder to write: new, empty, or an earlier export for the same tool, which is replaced."""
    model_name: OptionalText = None
    """Name of the language model in that tool; by default the recorded one."""
    cache: OptionalPath = None
    """Folder of `quadric harvest` that the evidence was collected from; by default the run's own, or else the language
    model reads its text again."""
    tokens: OptionalInt = None
    """How many tokens delphi gets; by default as many as the evidence has."""
    quantile: OptionalFloat = None
    """A quadratic latent fires, for delphi, beyond this quantile of its own values; 0.99 by default."""
    side: Annotated[Literal["positive", "negative"] | None, tyro.conf.arg(help_behavior_hint="")] = None
    """Side of the latents, for neuronpedia and delphi: positive (the default) is the one with more energy."""
    creator: OptionalText = None
    """Neuronpedia's id of the user to whom the import belongs."""
    model: OptionalText = None
    """Location of the language model, if its recorded name is not enough to find it."""
    corpus: OptionalText = None
    """Location of the text, if its recorded name is not enough to find it."""
    device: OptionalText = None
    """Device of the language model where it reads the text again: cpu, cuda, cuda:1 or mps."""
    json: bool = False
    """Print the folder, its files and the lines that load it as JSON."""

    def run(self) -> int:
        announce("export", f"loading {self.run_folder}")
        from quadric.cli.progress import progress
        from quadric.run.exporting import export

        with progress() as display:
            options = self.options("run_folder", "cache", "json")
            found = export(self.run_folder, activations=self.cache, **options, progress=display.report)
        if self.json:
            say_json({"to": found.to, "folder": str(found.folder), "files": found.files, "load": found.load}, indent=1)
            return 0
        size = sum((found.folder / file).stat().st_size for file in found.files)
        count = f"{len(found.files)} files" if len(found.files) > 1 else "1 file"
        say(f"Wrote {found.folder} for {found.to}: {count}, {size / 1e6:,.1f} MB. In Python:")
        say(found.load)
        return 0
