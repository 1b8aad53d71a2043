"""The dictionaries of runs that are probed together."""

from collections.abc import Sequence
from pathlib import Path

from quadric.data.hook_points import parse_hook_point
from quadric.model import Dictionary
from quadric.run.folder import load_all

MOST_LAYERS = 10_000
"""More than any model has: the hook point is compared with those of the runs, and needs no model."""


def dictionaries_of_runs(
    runs: Sequence[str], names: Sequence[str] = (), layer: str | None = None
) -> dict[str, Dictionary]:
    """The dictionaries of some runs by a short name: that of the run, where it has only one.

    Args:
        runs: Run folders, folders made by save_pretrained, or hub ids.
        names: Only the dictionaries of these names.
        layer: Only those at this hook point.

    Returns:
        The dictionaries, for `quadric.probe`.
    """
    loaded = load_all(runs, names)
    if layer is not None:
        points = {layer, str(parse_hook_point(layer, MOST_LAYERS))}
        at = sorted({str(dictionary.provenance.hook_point) for _, _, dictionary in loaded})
        loaded = [each for each in loaded if each.autoencoder.provenance.hook_point in points]
        if not loaded:
            raise ValueError(f"no autoencoder at layer {layer}; the runs have {', '.join(at)}")
    folders = [Path(run).resolve().name for run, _, _ in loaded]
    short = [
        folder if folders.count(folder) == 1 else f"{folder}/{name}"
        for folder, (_, name, _) in zip(folders, loaded, strict=True)
    ]
    if len(set(short)) < len(short):
        raise ValueError(f"the same autoencoder was given twice ({', '.join(short)}); give each run once")
    return dict(zip(short, (dictionary for _, _, dictionary in loaded), strict=True))
