"""The geometry of a whole dictionary, computed once: spectra, leading eigenvectors and neighbours.

Statistics, the axes of evidence, the pages of a site and reports are all made from it, without decomposing a latent
again. `quadric.geometry.stored` keeps it in a run folder.
"""

from dataclasses import dataclass

from quadric.autoencoders import Autoencoder
from quadric.geometry.decomposition import Decomposition, decompose
from quadric.geometry.dictionary import Progress, no_progress
from quadric.geometry.neighbours import Neighbours, closest
from quadric.geometry.shapes import DEFAULT_TOLERANCE
from quadric.geometry.statistics import LatentStatistics, statistics_of


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DictionaryGeometry(Decomposition):
    """Eigenvalues, leading eigenvectors, support and neighbours of every latent of one dictionary."""

    neighbours: Neighbours
    """The 20 closest latents of each latent, as `quadric.geometry.neighbours` gives them by default."""

    def statistics(self, tolerance: float = DEFAULT_TOLERANCE) -> LatentStatistics:
        """The table of all latents; `tolerance` decides which eigenvalues count for a latent's shape."""
        return statistics_of(self.eigenvalues, self.support, tolerance)


def dictionary_geometry(autoencoder: Autoencoder, on_progress: Progress = no_progress) -> DictionaryGeometry:
    """Compute the geometry of every latent from weights alone, decomposing each latent once.

    Args:
        autoencoder: A bilinear autoencoder.
        on_progress: Called with the number of latents finished since its last call; each latent counts twice, once
            when it is decomposed and once when its neighbours are found.

    Returns:
        Eigenvalues, leading eigenvectors, support and neighbours of all latents.

    Example:
        ```python
        import quadric

        ae = quadric.BilinearAutoencoder(d_model=16, n_latents=32, prior="atomic")
        geometry = quadric.geometry.dictionary_geometry(ae)
        table = quadric.geometry.statistics(ae, geometry=geometry)
        print(table.shape[0], geometry.neighbours.latents[0, :3])
        ```
    """
    found = decompose(autoencoder, on_progress=on_progress)
    return DictionaryGeometry(**vars(found), neighbours=closest(found, on_progress=on_progress))
