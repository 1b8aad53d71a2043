"""`quadric probe`: which labels a few latents hold, beside linear, random and dictionary-free features."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from quadric.cli.flags import ModelCommand, OptionalFloat, OptionalText, Paths, Texts
from quadric.cli.output import announce, say, say_json

if TYPE_CHECKING:
    from quadric.studies.probing import LabelledSet


@dataclass(frozen=True, kw_only=True)
class Data:
    """What to probe on."""

    sets: Texts = ()
    """Packaged sets by name; by default a selection of them, see --list."""
    data: Paths = ()
    """Your own texts and labels (.csv, .jsonl); two classes, or numbers. Alone, no packaged set is probed."""
    text_field: OptionalText = None
    """Column of the texts in your files; by default text or prompt."""
    label_field: OptionalText = None
    """Column of the labels in your files; by default label or target."""
    period: OptionalFloat = None
    """Length of the cycle that the labels of your files are on, e.g. 360 for degrees."""
    rows: int = 300
    """Rows per set at most."""
    tokens: int = 64
    """Tokens per text at most, at its end."""
    seeds: int = 3
    """Number of random splits, at least 2."""
    list: bool = False
    """Only list the packaged sets, with what their labels mean and where they are from."""


@dataclass(frozen=True, kw_only=True)
class Probe(ModelCommand):
    """Probe latents on labelled texts: AUC of the m best, R² of one latent's eigenspace; baselines on the same rows.

    Give a linear baseline as another run. An interrupted probing reads no text twice.

    Example: quadric probe runs/demo runs/topk --out probing
             quadric probe runs/demo --sets glue_sst2 weekdays --out probing
             quadric probe runs/demo --data reviews.csv --text-field review --label-field stars --out probing
             quadric probe --list
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ()
    """Run folders, folders made by save_pretrained, or hub ids, all of one language model."""
    name: Texts = ()
    """Probe only the autoencoders of these names."""
    layer: OptionalText = None
    """Probe only the autoencoders at this hook point, if the runs have several: 15, resid_mid.5 ..."""
    data: Annotated[Data, tyro.conf.OmitArgPrefixes] = field(default_factory=Data)
    """What to probe on."""
    out: Path = Path("probing")
    """Folder for tables (.csv, .md), everything (.json), the figure, and activations of texts that were read."""
    json: bool = False
    """Print everything as JSON instead of tables."""

    def run(self) -> int:
        if self.data.list:
            return self._list()
        announce("probe", f"loading {', '.join(self.run_folders)}")
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.probing import probe
        from quadric.studies.probing.files import VECTORS, check_folder, write_probing
        from quadric.studies.probing.of_runs import dictionaries_of_runs
        from quadric.studies.probing.report import in_terminal, verdicts

        check_folder(self.out)
        dictionaries, wanted = dictionaries_of_runs(self.run_folders, self.name, self.layer), self._wanted()
        with progress() as display:
            probing = probe(
                dictionaries,
                wanted,
                seeds=self.data.seeds,
                rows=self.data.rows,
                tokens=self.data.tokens,
                model=self.model,
                device=self.device,
                cache=self.out / VECTORS,
                on_progress=display.report,
            )
        if self.json:
            say_json(probing.as_json(), indent=1)
        else:
            safe_console().print(in_terminal(probing))
            for sentence in verdicts(probing):
                say(sentence)
        paths = write_probing(probing, self.out)
        for path in paths:
            say(f"wrote {path}", file=sys.stderr)
        if not any(path.suffix == ".png" for path in paths):
            say("no figure: it needs matplotlib; install it with: pip install 'quadric[figures]'", file=sys.stderr)
        return 0

    def _wanted(self) -> "list[str | LabelledSet] | None":
        from quadric.studies.probing.labelled import read_labelled

        chosen = self.data
        about = {"text_field": chosen.text_field, "label_field": chosen.label_field, "period": chosen.period}
        given = [f"--{name.replace('_', '-')}" for name, value in about.items() if value is not None]
        if given and not chosen.data:
            raise ValueError(f"{', '.join(given)} describes a file of your own; give it with --data")
        return [*chosen.sets, *(read_labelled(path, **about) for path in chosen.data)] or None  # type: ignore[arg-type]

    def _list(self) -> int:
        from quadric._io.terminal import safe_console
        from quadric.studies.probing.catalogue import described_sets

        rows = described_sets()
        if self.json:
            say_json(rows, indent=1)
            return 0
        from rich.table import Table

        table = Table("set", "label", "about", "source", box=None, padding=(0, 1, 0, 0))
        for row in rows:
            table.add_row(row["name"], row["kind"] + (" *" if row["default"] else ""), row["about"], row["source"])
        safe_console().print(table)
        say("* probed by default")
        return 0
