"""`quadric compare`: how much autoencoders agree, from weights alone."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import tyro

from quadric.cli.flags import Paths, Texts
from quadric.cli.output import say_json, write_results

if TYPE_CHECKING:
    from quadric.run.folder import Loaded


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare autoencoders pair by pair: Sim_F, Sim_H and more, each beside the value expected by chance.

    Every bilinear autoencoder of every run is compared, and of runs and folders without one the linear ones, unless
    --name chooses among them. A direction d of a linear one counts as the form ddᵀ.

    Example: quadric compare runs/a runs/b runs/c --out similarity.png
             quadric compare runs/grid
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run folders, folders made by save_pretrained, SAELens or sparsify, or hub ids."""
    name: Texts = ()
    """Compare only the autoencoders of these names."""
    out: Paths = ()
    """Files to write: heat maps (.png), or everything as JSON (.json)."""
    json: bool = False
    """Print everything as JSON instead of tables."""
    force: bool = False
    """Compare even autoencoders of different models or hook points."""
    null_seed: int = 1_000_003
    """Seed of the random initializations that chance is measured with."""

    def run(self) -> int:
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.reports.run_comparison import ENDINGS, compare_runs, write_comparison
        from quadric.studies.reports.terminal import comparison_in_terminal

        check_endings(self.out, ENDINGS)
        loaded = self._loaded()
        with progress() as display:
            comparison = compare_runs(
                _labels(loaded),
                [each.autoencoder for each in loaded],
                null_seed=self.null_seed,
                force=self.force,
                on_progress=display.report,
            )
        if self.json:
            say_json(comparison.as_json())
        else:
            safe_console().print(comparison_in_terminal(comparison))
        write_results(self.out, partial(write_comparison, comparison))
        return 0

    def _loaded(self) -> "list[Loaded]":
        """Linear baselines are left out if their run has others, whose baselines they are."""
        from quadric.model import BilinearAutoencoder
        from quadric.run.folder import load_all

        loaded = load_all(self.run_folders, self.name)
        bilinear = [each for each in loaded if isinstance(each.autoencoder, BilinearAutoencoder)]
        with_forms = {each.run for each in bilinear}
        kept = loaded if self.name else [each for each in loaded if each in bilinear or each.run not in with_forms]
        if len(kept) < 2:
            raise ValueError(f"{len(kept)} autoencoder given; name at least two to compare, in one run or in several")
        return kept


def _labels(loaded: "list[Loaded]") -> list[str]:
    """The run's name, with the autoencoder's where the run has several."""
    runs = [each.run for each in loaded]
    return [each.run if runs.count(each.run) == 1 else f"{each.run.rstrip('/')}/{each.name}" for each in loaded]
