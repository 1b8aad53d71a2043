"""Autoencoders with their evidence -> a static site."""

from collections.abc import Callable, Sequence
from pathlib import Path

from quadric.site.checking import HostingLimits
from quadric.site.export import SiteInput, site_parts
from quadric.site.schema import SiteManifest
from quadric.site.writer import STATIC, check_replaceable, check_viewer_built, write_site

OnProgress = Callable[[str, int, int], None]
"""Which part, how much of it is done, and of how much."""


def build_site(
    inputs: Sequence[SiteInput],
    out: Path,
    *,
    title: str = "Quadric",
    with_map: bool = True,
    limits: HostingLimits | None = HostingLimits(),  # noqa: B008  (frozen)
    static: Path = STATIC,
    on_progress: OnProgress = lambda part, done, wanted: None,
) -> SiteManifest:
    """Work out the geometry of every latent and write all pages; an earlier site there is replaced."""
    check_replaceable(out)
    check_viewer_built(static)
    n_latents = sum(each.autoencoder.n_latents for each in inputs)
    # The geometry of a latent has three steps: its decomposition, its neighbours, its statistics.
    geometry, pages = (
        _counted(part, total, on_progress) for part, total in (("geometry", 3 * n_latents), ("pages", n_latents))
    )
    texts, dictionaries = site_parts(inputs, with_map=with_map, on_progress=geometry)
    return write_site(
        out, title=title, texts=texts, dictionaries=dictionaries, limits=limits, static=static, on_progress=pages
    )


def _counted(part: str, total: int, on_progress: OnProgress) -> Callable[[int], None]:
    done = 0

    def advance(finished: int) -> None:
        nonlocal done
        done += finished
        on_progress(part, done, total)

    return advance
