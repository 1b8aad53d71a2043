"""`quadric probe`: which labels a few latents hold, beside linear, random and dictionary-free features."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from quadric.cli.flags import OptionalText, Paths, Texts
from quadric.cli.output import announce, say, say_json

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from quadric.model import Dictionary
    from quadric.studies.probing import LabelledSet
    from quadric.studies.probing.report import Table

OptionalNumber = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]

MOST_LAYERS = 10_000
"""More than any model has: the hook point is compared with those of the runs, and needs no model."""


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
    period: OptionalNumber = None
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
class Output:
    """Where the result goes."""

    out: Path = Path("probing")
    """Folder for tables (.csv, .md), everything (.json), the figure, and activations of texts that were read."""
    json: bool = False
    """Print everything as JSON instead of tables."""


@dataclass(frozen=True, kw_only=True)
class Probe:
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
    model: OptionalText = None
    """Location of the language model, if its recorded name is not enough to find it."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, else the CPU."""
    data: Annotated[Data, tyro.conf.OmitArgPrefixes] = field(default_factory=Data)
    """What to probe on."""
    output: Annotated[Output, tyro.conf.OmitArgPrefixes] = field(default_factory=Output)
    """Where the result goes."""

    def run(self) -> int:
        if self.data.list:
            return self._list()
        announce("probe", f"loading {', '.join(self.run_folders)}")
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.probing import probe
        from quadric.studies.probing.files import VECTORS, check_folder, write_probing
        from quadric.studies.probing.report import short_tables, verdicts

        check_folder(self.output.out)
        dictionaries, wanted = self._dictionaries(), self._wanted()
        with progress() as display:
            found = probe(
                dictionaries,
                wanted,
                seeds=self.data.seeds,
                rows=self.data.rows,
                tokens=self.data.tokens,
                model=self.model,
                device=self.device,
                cache=self.output.out / VECTORS,
                on_progress=display.report,
            )
        if self.output.json:
            say_json(found.as_json(), indent=1)
        else:
            for table in short_tables(found):
                safe_console().print(_shown(table))
            for sentence in verdicts(found):
                say(sentence)
        paths = write_probing(found, self.output.out)
        for path in paths:
            say(f"wrote {path}", file=sys.stderr)
        if not any(path.suffix == ".png" for path in paths):
            say("no figure: it needs matplotlib; install it with: pip install 'quadric[figures]'", file=sys.stderr)
        return 0

    def _dictionaries(self) -> "dict[str, Dictionary]":
        """The autoencoders by a short name: that of the run, where it has only one."""
        from quadric.data.hook_points import parse_hook_point
        from quadric.run.folder import load_all

        loaded = load_all(self.run_folders, self.name)
        if self.layer is not None:
            points = {self.layer, str(parse_hook_point(self.layer, MOST_LAYERS))}
            at = sorted({str(each.autoencoder.provenance.hook_point) for each in loaded})
            loaded = [each for each in loaded if each.autoencoder.provenance.hook_point in points]
            if not loaded:
                raise ValueError(f"no autoencoder at layer {self.layer}; the runs have {', '.join(at)}")
        short = [Path(each.run).resolve().name for each in loaded]
        names = [
            one if short.count(one) == 1 else f"{one}/{each.name}" for one, each in zip(short, loaded, strict=True)
        ]
        if len(set(names)) < len(names):
            raise ValueError(f"the same autoencoder was given twice ({', '.join(names)}); give each run once")
        return dict(zip(names, (each.autoencoder for each in loaded), strict=True))

    def _wanted(self) -> "list[str | LabelledSet] | None":
        from quadric.studies.probing.labelled import read_labelled

        chosen = self.data
        if not chosen.data:
            given = {"--text-field": chosen.text_field, "--label-field": chosen.label_field, "--period": chosen.period}
            if named := [flag for flag, value in given.items() if value is not None]:
                raise ValueError(f"{', '.join(named)} describes a file of your own; give it with --data")
            return list(chosen.sets) or None
        fields = {"text_field": chosen.text_field, "label_field": chosen.label_field, "period": chosen.period}
        return [*chosen.sets, *(read_labelled(path, **fields) for path in chosen.data)]  # type: ignore[arg-type]

    def _list(self) -> int:
        from quadric._io.terminal import safe_console
        from quadric.studies.probing.catalogue import described_sets

        rows = described_sets()
        if self.output.json:
            say_json(rows, indent=1)
            return 0
        from rich.table import Table as RichTable

        table = RichTable("set", "label", "about", "source", box=None, padding=(0, 1, 0, 0))
        for row in rows:
            table.add_row(row["name"], row["kind"] + (" *" if row["default"] else ""), row["about"], row["source"])
        safe_console().print(table)
        say("* probed by default")
        return 0


def _shown(table: "Table") -> "RichTable":
    from rich.table import Table as RichTable

    made = RichTable(title=table.title, title_justify="left", caption=table.note, caption_justify="left", box=None)
    for place, heading in enumerate(table.headings):
        made.add_column(heading, justify="left" if place == 0 else "right", no_wrap=True)
    for row in table.rows:
        made.add_row(*row)
    return made
