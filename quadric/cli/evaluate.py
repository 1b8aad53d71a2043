"""`quadric evaluate`: how good trained autoencoders are, on held-out text."""

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, Paths, Taken, Texts, flag_group
from quadric.cli.output import announce, say, say_json, write_results
from quadric.cli.run_flags import Computation
from quadric.evaluation.settings import EvaluationSettings

if TYPE_CHECKING:
    from quadric.evaluation import Evaluation

TextFlags = flag_group("TextFlags", Taken(EvaluationSettings), Taken(Computation))
TextGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TextFlags)]


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Measure autoencoders on text that they were not trained on: error, density, predictions recovered.

    The result is also kept in RUN/evaluation.json, where quadric site finds it.

    Example: quadric evaluate runs/first
             quadric evaluate runs/first runs/second --spliced-tokens 0 --out evaluation.csv evaluation.json
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, folders made by save_pretrained, SAELens or sparsify, or hub ids; all autoencoders in them are
    measured."""
    name: Texts = ()
    """Measure only the autoencoders of these names."""
    text: TextGroup = field(default_factory=TextFlags)
    """The text to measure on, and the model that reads it."""
    out: Paths = ()
    """Files to write: everything (.json), or the table (.csv)."""
    json: bool = False
    """Print everything as JSON instead of a table."""

    def run(self) -> int:
        settings = EvaluationSettings(**self.text.given(EvaluationSettings))
        announce("evaluate", f"loading {', '.join(self.run_folders)}")
        from quadric._io.results import check_endings
        from quadric.cli.progress import progress
        from quadric.evaluation import evaluate_on_text
        from quadric.evaluation.evaluating import Candidate
        from quadric.evaluation.record import write_evaluations
        from quadric.run.folder import load_all

        check_endings(self.out)
        candidates = [Candidate(*each) for each in load_all(self.run_folders, self.name)]
        device = Computation(**self.text.given(Computation)).device
        with progress() as display:
            found = evaluate_on_text(candidates, settings, device=device, on_progress=display.report)
        self._show(found)
        write_results(self.out, partial(write_evaluations, found))
        _keep(found)
        return 0

    def _show(self, found: "list[Evaluation]") -> None:
        from quadric._io.terminal import safe_console
        from quadric.studies.reports.evaluations import print_evaluations

        if self.json:
            say_json([each.as_json() for each in found], indent=1, allow_nan=True)
        else:
            print_evaluations(found, safe_console())
        sys.stdout.flush()


def _keep(found: "list[Evaluation]") -> None:
    """Keep the result in the run folder; one that cannot be written to costs the user no result."""
    from quadric.evaluation.record import keep_in_runs

    try:
        keep_in_runs(found)
    except (OSError, ValueError) as problem:
        say(f"quadric: not kept in the run folder ({problem}); quadric site will not show it", file=sys.stderr)
