"""`quadric explain`: which latents explain each token of a text."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from quadric.cli.flags import ModelCommand, Paths, RunCommand
from quadric.cli.output import announce, say_json, write_results

STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Explain(ModelCommand, RunCommand):
    """Show the strongest latents of every token of a text, and where in it each latent fires.

    A latent is strong on a token if it rebuilds much of it with a value that is rare in the latent's own distribution,
    which the run's evidence has (quadric site collects it). Without evidence, latents are ranked by energy alone.

    Example: quadric explain runs/demo "Paris is the capital of France"
             quadric explain runs/demo --file letter.txt --out letter.csv
             cat lines.txt | quadric explain runs/demo - --lines --json
    """

    text: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = ()
    """Texts to explain; - reads one from standard input, which is also read if there is neither text nor file."""
    file: Paths = ()
    """Files to explain, each as one text."""
    lines: bool = False
    """Explain every line of the files and of standard input as a text of its own; empty lines are left out."""
    top: int = 3
    """Latents to show per token."""
    out: Paths = ()
    """Files to write: everything as JSON (.json), or one row per token and latent (.csv)."""

    def run(self) -> int:
        if self.top < 1:
            raise ValueError(f"top={self.top} is not positive; give how many latents to show per token")
        texts = self._texts()
        announce("explain", f"loading {self.run_folder} and its language model")
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.explanations.record import write_explanations
        from quadric.run.viewing import run_explainer
        from quadric.studies.reports.explanations import explanation_in_terminal

        check_endings(self.out)
        explainer = run_explainer(self.run_folder, name=self.name, model=self.model, device=self.device)
        found = explainer.explain(texts, self.top)
        if self.json:
            say_json([each.as_json() for each in found], indent=1)
        else:
            for explanation in found:
                safe_console().print(explanation_in_terminal(explanation))
        write_results(self.out, partial(write_explanations, found))
        return 0

    def _texts(self) -> list[str]:
        """All texts, in the order of the arguments: given, from standard input, from files."""
        given = [text for text in self.text if text != STDIN]
        read = [self._decoded(path.read_bytes(), str(path)) for path in map(_checked, self.file)]
        if STDIN in self.text or (not self.text and not self.file):
            if sys.stdin.isatty() and STDIN not in self.text:
                raise ValueError('there is no text; give one: quadric explain RUN "Some words", or --file PATH')
            read.insert(0, self._decoded(sys.stdin.buffer.read(), "standard input"))
        if self.lines:
            read = [line for text in read for line in text.splitlines() if line.strip()]
        texts = [*given, *(text.rstrip("\r\n") for text in read)]
        if not texts or not all(text.strip() for text in texts):
            raise ValueError("a text is empty or white space; give at least one word")
        return texts

    def _decoded(self, content: bytes, where: str) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as problem:
            raise ValueError(f"{where} is not UTF-8 (byte {problem.start}); convert it first") from None


def _checked(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"no file '{path}'; give a text file")
    return path
