"""Build a static site about the autoencoders of one or several runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quadric._io.progress import Progress, no_progress
from quadric.evaluation.record import kept_in_run, rows_in_run
from quadric.evidence import Evidence, Job
from quadric.geometry import Centre, DictionaryGeometry
from quadric.geometry.centring import given_sha256
from quadric.interop.reading import read_dictionary
from quadric.model import Dictionary
from quadric.run.evidence import OnNote, WantedEvidence, evidence_for
from quadric.run.folder import autoencoder_folder, autoencoder_folders, chosen_names, evidence_folder, geometry_of_run
from quadric.viewer import writer
from quadric.viewer.export import SiteInput, build_site, unused_name
from quadric.viewer.schema import Quality, SiteManifest

SITE = "site"
"""Name of the site folder in a run."""


def export_site(
    autoencoder: Dictionary,
    evidence: Evidence,
    out: str | Path,
    *,
    name: str = "latents",
    title: str = "Quadric",
    source: str | None = None,
    with_map: bool = True,
) -> Path:
    """Write a static site that shows every latent of an autoencoder: no server, no network, any host.

    Args:
        autoencoder: Any dictionary.
        evidence: Result of `quadric.collect_evidence` for it.
        out: Folder of the site; an earlier site there is replaced.
        name: Name of the dictionary on the site.
        title: Title of the site.
        source: Argument for `quadric.load` that loads the autoencoder, shown on each latent's page; None if it was not
            saved.
        with_map: Add a UMAP map of all latents; needs `pip install 'quadric[site]'`.

    Returns:
        The folder of the site.

    Example:
        >>> folder = quadric.export_site(ae, evidence, "site", with_map=False)
        >>> (folder / "index.html").is_file()
        True
    """
    given = SiteInput(name=name, autoencoder=autoencoder, evidence=evidence, source=source)
    build_site([given], Path(out), title=title, with_map=with_map)
    return Path(out)


def site_of_runs(
    runs: Sequence[Path],
    out: Path,
    wanted: WantedEvidence,
    *,
    names: Sequence[str] = (),
    on_progress: Progress = no_progress,
    on_note: OnNote = lambda note: None,
    **options: Any,
) -> SiteManifest:
    """Collect missing evidence, then write a site about the autoencoders of the runs.

    `names` selects autoencoders by name in every run; by default all. `options` are further arguments of `build_site`.
    """
    _check_apart(runs, out)
    writer.check_replaceable(out)
    writer.check_viewer_built(writer.STATIC)
    inputs = site_inputs(runs, wanted, names=names, on_progress=on_progress, on_note=on_note)
    return build_site(inputs, out, on_progress=on_progress, **options)


def _check_apart(runs: Sequence[Path], out: Path) -> None:
    for run in runs:
        if run.resolve().is_relative_to(out.resolve()):
            raise ValueError(f"'{out}' holds the run '{run}'; name a folder of its own for the site, e.g. {run / SITE}")


def site_inputs(
    runs: Sequence[Path],
    wanted: WantedEvidence,
    *,
    names: Sequence[str] = (),
    on_progress: Progress = no_progress,
    on_note: OnNote = lambda note: None,
) -> list[SiteInput]:
    """The selected autoencoders of the runs with their geometry, evidence and, if known, quality."""
    found = [each for run in runs for each in _autoencoders(run, names)]
    geometries = [_geometry_of(each, on_progress) for each in found]
    jobs = [
        Job(each.autoencoder, evidence_folder(each.run, each.name), geometry_about)
        for each, geometry_about in zip(found, geometries, strict=True)
    ]
    inputs: list[SiteInput] = []
    collected = evidence_for(jobs, wanted, on_progress=on_progress, on_note=on_note)
    for each, geometry_about, evidence in zip(found, geometries, collected, strict=True):
        inputs.append(
            SiteInput(
                name=unused_name(each.name, {one.name for one in inputs}),
                autoencoder=each.autoencoder,
                evidence=evidence,
                source=str(each.run),
                source_autoencoder=None if each.is_only_one else each.name,
                quality=quality_of(each.run, each.name, each.autoencoder, on_note),
                geometry=geometry_about(evidence.calibration.tokens_centre()),
            )
        )
    return inputs


_SAME_NAME = (
    "error_constant",
    "error_linear",
    "error_quadratic",
    "floor",
    "dense_share",
    "n_empty",
    "n_copies",
    "n_distinct",
)


def quality_of(run: Path, name: str, autoencoder: Dictionary, on_note: OnNote = lambda note: None) -> Quality:
    """Results that `quadric evaluate` stored in the run for exactly these weights on held-out text, if it did."""
    found = kept_in_run(run, name, autoencoder) or {}
    if not found and any(row["name"] == name for row in rows_in_run(run)):
        why = "is of other weights or another text, and is not shown"
        on_note(f"the evaluation of {name} {why}; measure it again: quadric evaluate {run}")
    return Quality(
        error=found.get("error"),
        density=found.get("density"),
        cross_entropy_recovered=found.get("cross_entropy_recovered_zero"),
        n_tokens=found.get("tokens"),
        **{name: found.get(name) for name in _SAME_NAME},
    )


class _Found(NamedTuple):
    run: Path
    name: str
    autoencoder: Dictionary
    is_only_one: bool


def _geometry_of(found: _Found, on_progress: Progress) -> Callable[[Centre], DictionaryGeometry]:
    """How to get the geometry of a dictionary about the centre of its tokens, loaded or computed once."""
    known: dict[str, DictionaryGeometry] = {}  # a run folder that cannot be written keeps nothing

    def geometry_about(centre: Centre) -> DictionaryGeometry:
        which = given_sha256(found.autoencoder, centre)
        if which not in known:
            known[which] = geometry_of_run(found.run, found.name, found.autoencoder, on_progress, moments=centre)
        return known[which]

    return geometry_about


def _autoencoders(run: Path, names: Sequence[str]) -> list[_Found]:
    is_only_one = len(autoencoder_folders(run)) == 1
    return [
        _Found(run, name, read_dictionary(autoencoder_folder(run, name)), is_only_one)
        for name in chosen_names(run, names)
    ]
