"""`quadric concepts`: which latent holds weekdays, months, years …, beside chance."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from quadric._io.terminal import number_table, safe_console
from quadric.cli.flags import ModelCommand, OptionalPath, OptionalText, Texts
from quadric.cli.output import announce, say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.evidence.concepts import Finding


@dataclass(frozen=True, kw_only=True)
class Concepts(ModelCommand):
    """Find the latents that hold weekdays, months, years, numbers, letters and countries.

    A latent captures the share of the variance between a concept's words that lies in its eigenspace (effective rank,
    at most 8 dimensions). For comparison: the best of equally many random subspaces, and the best latent of an
    untrained autoencoder.

    A latent detects a concept by its average precision at telling the concept's tokens from held-out corpus tokens.
    The latent is chosen on half of the tokens and measured on the other half.

    Example: quadric concepts runs/first --out concepts.csv
    Example: quadric concepts runs/first --corpus-tokens 0
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, folders made by save_pretrained, SAELens or sparsify, or hub ids, all of one language model."""
    name: Texts = ()
    """Look only into the autoencoders of these names."""
    corpus: OptionalText = None
    """Another corpus for detection, or the location of the recorded one."""
    corpus_tokens: int = 8192
    """Number of held-out corpus tokens to detect concepts among; 0 skips detection."""
    out: OptionalPath = None
    """File to write the table to (.csv)."""
    json: bool = False
    """Print everything as JSON instead of a table."""

    def run(self) -> int:
        announce("concepts", f"loading {', '.join(self.run_folders)}")
        from quadric._io.files import write_atomically
        from quadric._io.results import check_endings, csv_of_rows
        from quadric.cli.progress import progress
        from quadric.evidence.concepts import find_concepts
        from quadric.evidence.concepts.finding import Named
        from quadric.run.folder import load_all

        check_endings([self.out] if self.out else [], [".csv"])
        named = [Named(name, autoencoder) for _, name, autoencoder in load_all(self.run_folders, self.name)]
        with progress() as display:
            options = self.options("run_folders", "name", "out", "json")
            found = find_concepts(named, **options, on_progress=display.report)
        rows = [each.as_row() for each in found]
        if self.json:
            say_json(rows, indent=1)
        else:
            for table in _tables(found):
                safe_console().print(table)
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.out, csv_of_rows(rows).encode())
            say(f"wrote {self.out}", file=sys.stderr)
        return 0


def _tables(found: "list[Finding]") -> "list[Table]":
    captured = _table(
        found,
        {"latent": "latent", "rank": "rank"},
        {"captured": "captured", "most": "most", "random": "random_subspace", "untrained": "untrained"},
        "Captured: share of the variance between words. The viewer shows latent N at #/latent/N.",
    )
    if all(each.detection is None for each in found):
        return [captured]
    detected = _table(
        found,
        {"latent": "detected_by", "sign": "detected_sign"},
        {"detected": "detected", "chance": "detected_chance"},
        "Detected: average precision of the best single latent among corpus tokens, on tokens it was not chosen by.",
    )
    return [captured, detected]


def _table(found: "list[Finding]", numbers: dict[str, str], shares: dict[str, str], caption: str) -> "Table":
    """One row per finding; `numbers` and `shares` map headings to columns of the CSV."""
    rows = []
    for finding in found:
        row = finding.as_row()
        counts = ("" if row[name] is None else str(row[name]) for name in numbers.values())
        cells = ("" if row[name] is None else f"{row[name]:.1%}" for name in shares.values())
        rows.append((finding.concept, finding.kind, finding.hook_point, *counts, *cells))
    headings = ("concept", "kind", "at", *numbers, *shares)
    layout: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "caption": caption, "caption_justify": "left"}
    return number_table(headings, rows, n_words=3, **layout)
