"""The geometry of a whole dictionary, computed once: spectra, axes, shapes, neighbours and copies.

Statistics, the axes of evidence, the pages of a site and reports are all made from it, without decomposing a latent
again. `quadric.geometry.stored` keeps it in a run folder.
"""

from dataclasses import dataclass

from quadric._io.progress import Progress, no_progress, part_of
from quadric.geometry.centring import CentreLike
from quadric.geometry.copies import Redundancy, redundancy
from quadric.geometry.decomposition import Decomposition, decompose
from quadric.geometry.neighbours import Neighbours, closest
from quadric.geometry.statistics import LatentStatistics, statistics_of
from quadric.model import Autoencoder


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DictionaryGeometry(Decomposition):
    """Eigenvalues, axes, shape, neighbours and copies of every latent of one dictionary."""

    neighbours: Neighbours
    """The 20 closest latents of each latent, as `quadric.geometry.neighbours` gives them by default."""
    redundancy: Redundancy
    """Which latents are empty, and which are copies of others."""

    def statistics(self) -> LatentStatistics:
        """The table of all latents."""
        return statistics_of(self, self.redundancy.copy_of)


def dictionary_geometry(
    autoencoder: Autoencoder, on_progress: Progress = no_progress, *, moments: CentreLike | None = None
) -> DictionaryGeometry:
    """Compute the geometry of every latent from weights alone, decomposing each latent once.

    Args:
        autoencoder: Any dictionary.
        on_progress: Called as latents are decomposed, and again as their neighbours are found.
        moments: Mean and covariance of the unit tokens that a raw dictionary reads, as `quadric.TokenMoments` or
            `quadric.geometry.Centre`; a raw dictionary is read about the origin without. An affine lens has its own.

    Returns:
        Eigenvalues, axes, shapes, support, neighbours and copies of all latents.

    Example:
        >>> known = geometry.dictionary_geometry(ae)
        >>> table = geometry.statistics(ae, geometry=known)  # decomposes no latent again
        >>> known.neighbours.latents[0, :3].shape
        torch.Size([3])
    """
    k = autoencoder.n_latents
    found = decompose(autoencoder, on_progress=part_of(on_progress, "geometry", 0, 2 * k), centre=moments)
    near = closest(found, on_progress=part_of(on_progress, "geometry", k, 2 * k))
    return DictionaryGeometry(**vars(found), neighbours=near, redundancy=redundancy(autoencoder))
