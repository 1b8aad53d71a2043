"""Export autoencoders with their evidence as a static site: `build_site` is the entry."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from quadric._io.progress import Progress, no_progress
from quadric.evidence import DictionaryPatterns, Evidence, clusters, find_patterns
from quadric.geometry import DictionaryGeometry
from quadric.viewer import writer
from quadric.viewer.comparisons import site_comparisons
from quadric.viewer.dictionaries import SiteInput, geometry_shown, site_dictionary
from quadric.viewer.schema import SiteDictionary, SiteManifest, SiteText, unit_of
from quadric.viewer.writer import HostingLimits, check_replaceable, check_viewer_built, write_site


def build_site(
    inputs: Sequence[SiteInput],
    out: Path,
    *,
    title: str = "Quadric",
    with_map: bool = True,
    clustered: int = clusters.MOST_LATENTS,
    compared: bool = True,
    limits: HostingLimits | None = HostingLimits(),  # noqa: B008  (frozen)
    static: Path | None = None,
    on_progress: Progress = no_progress,
) -> SiteManifest:
    """Write a static site that shows every latent of some autoencoders.

    Args:
        inputs: The autoencoders with their evidence; those with the same text share it on disk.
        out: Folder of the site. An existing site there is replaced; any other folder that is not empty is refused.
        title: Title of the landing page.
        with_map: Whether to lay all latents out by UMAP, which needs `umap-learn`.
        clustered: How many latents per dictionary are searched for clusters of points, best first by the site's
            ranking, and tested for the paper's example geometries; 0 for none. Without `scikit-learn` none is.
        compared: Whether to match the latents of all pairs of dictionaries that read the same vectors.
        limits: Sizes that free static hosts accept; None for a site that stays on this machine.
        static: Folder of the built viewer; None for the one that comes with the package.
        on_progress: Called as "geometry", "clusters", "patterns", "comparisons" and "pages" advance; all but
            comparisons for one dictionary after the other.

    Returns:
        The manifest that was written to data/site.json.

    Example:
        >>> one = SiteInput(name="mine", autoencoder=ae, evidence=evidence, source="runs/demo")
        >>> built = build_site([one], Path("site"), with_map=False)
    """
    check_replaceable(out)
    static = static or writer.STATIC
    check_viewer_built(static)
    named = [(given.name, given.autoencoder) for given in inputs]
    texts, dictionaries = site_parts(inputs, with_map=with_map, clustered=clustered, on_progress=on_progress)
    return write_site(
        out,
        title=title,
        texts=texts,
        dictionaries=dictionaries,
        comparisons=site_comparisons(named, on_progress) if compared else (),
        weights={given.name: given.evidence.weights_sha256 for given in inputs},
        limits=limits,
        static=static,
        on_progress=on_progress,
    )


def site_parts(
    inputs: Sequence[SiteInput],
    *,
    seed: int = 0,
    with_map: bool = True,
    clustered: int = clusters.MOST_LATENTS,
    on_progress: Progress = no_progress,
) -> tuple[list[SiteText], list[SiteDictionary]]:
    """Texts and dictionaries for `write_site`, without writing anything; equal texts are shared."""
    if clustered < 0:
        raise ValueError(f"clustered={clustered} is negative; give how many latents to search for clusters, 0 for none")
    texts: list[SiteText] = []
    dictionaries = []
    for given in inputs:
        text = _shared(texts, _text(given.evidence))
        geometry = geometry_shown(given, on_progress)
        found, patterns = _searched(given, geometry, clustered, seed, on_progress)
        dictionaries.append(site_dictionary(given, text.name, geometry, found, patterns, seed=seed, with_map=with_map))
    return texts, dictionaries


def _searched(
    given: SiteInput, geometry: DictionaryGeometry, count: int, seed: int, on_progress: Progress
) -> tuple[dict[int, clusters.LatentClusters] | None, DictionaryPatterns | None]:
    """The clusters of the latents most worth a look, and the patterns of the same latents; None if none is searched."""
    if not count or not clusters.is_available():
        return None, None
    evidence = given.evidence
    found = clusters.clusters_of(evidence, geometry, count=count, seed=seed, on_progress=on_progress)
    return found, find_patterns(
        evidence, geometry, latents=list(found), clusters=found, seed=seed, on_progress=on_progress
    )


def _shared(texts: list[SiteText], text: SiteText) -> SiteText:
    """Return an equal text that is already listed, or list this one under an unused name."""
    for other in texts:
        if np.array_equal(other.token_ids, text.token_ids) and other.vocabulary == text.vocabulary:
            return other
    taken = {other.name for other in texts}
    texts.append(replace(text, name=unused_name(text.name, taken)))
    return texts[-1]


def unused_name(wanted: str, taken: set[str]) -> str:
    """Turn a name into one that can be a folder and a part of an address; a taken one gets a number."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted, flags=re.ASCII).strip("-._") or "unnamed"
    numbered = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def _text(evidence: Evidence) -> SiteText:
    """The text of some evidence, named after its corpus; rows of a tensor are named "rows"."""
    text, unit = evidence.text, unit_of(evidence.provenance)
    return SiteText(
        name=unused_name(evidence.provenance.corpus or f"{unit}s", set()),
        token_ids=np.asarray(text.token_ids),
        sequence_starts=np.asarray(text.sequence_starts),
        documents=np.asarray(text.documents),
        vocabulary=text.vocabulary,
        attribution=evidence.corpus_licence,
        unit=unit,
    )
