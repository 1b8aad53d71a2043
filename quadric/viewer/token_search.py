"""The index behind the search by token: which latents a token drives."""

import numpy as np
from jaxtyping import Float32, Int32

from quadric.viewer.encoding import planes
from quadric.viewer.schema import TOKENS_PER_LATENT


class TokenSearch:
    """Collects, latent by latent, the tokens with the largest share of Σz² over the latent's points."""

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size
        self._tokens: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []

    def add(self, tokens: Int32[np.ndarray, " m"], values: Float32[np.ndarray, " m"]) -> None:
        """Add the points of the next latent."""
        kinds, which = np.unique(tokens, return_inverse=True)
        energy = np.bincount(which, weights=np.square(values.astype(np.float64)), minlength=len(kinds))
        strongest = np.argsort(-energy, kind="stable")[:TOKENS_PER_LATENT]
        strongest = strongest[energy[strongest] > 0]
        self._tokens.append(kinds[strongest])
        self._shares.append(energy[strongest] / energy.sum() if len(strongest) else energy[strongest])

    def tensors(self) -> dict[str, np.ndarray]:
        """The latents that each token drives, by share descending; `counts` says how many there are per token."""
        tokens = np.concatenate([*self._tokens, np.zeros(0, dtype=np.int32)]).astype(np.int64)
        shares = np.concatenate([*self._shares, np.zeros(0)])
        latents = np.repeat(np.arange(len(self._tokens)), [len(each) for each in self._tokens])
        order = np.lexsort((latents, -shares, tokens))
        counts = np.bincount(tokens, minlength=self.vocabulary_size)
        return {
            "counts": planes(counts),
            "latents": planes(latents[order]),
            "shares": planes(np.rint(shares[order] * 255).astype(np.int64), 1)[0],
        }
