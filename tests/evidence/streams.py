"""A stream of random activations over random text, small enough to count by hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from quadric import BilinearAutoencoder
from quadric.data import ActivationBatch
from quadric.data.provenance import StreamProvenance
from quadric.evidence.text import ReadSequence
from tests import zoo

D_MODEL = 12
LENGTH = 20
HOOK = "resid_pre.3"

PROVENANCE = StreamProvenance(
    model="none",
    model_revision="1",
    model_dtype="float32",
    hook_points=(HOOK,),
    tokenizer_fingerprint="sha256:0",
    corpus="random",
    corpus_revision="1",
    corpus_settings={},
    split="train",
    packing="packed",
    block_length=LENGTH,
    token_rules={},
)


class RandomText:
    """Sequences of letters, drawn so that windows repeat; every sequence has two documents."""

    def __init__(self, n_sequences: int, seed: int = 0, n_letters: int = 3) -> None:
        generator = np.random.default_rng(seed)
        self.tokens = generator.integers(0, n_letters, (n_sequences, LENGTH)).astype(np.int32)

    def sequence(self, number: int) -> ReadSequence:
        documents = 2 * number + (np.arange(LENGTH) >= LENGTH // 2)
        return ReadSequence(self.tokens[number], documents.astype(np.int32))

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return [bytes([97 + token]) for token in token_ids]


class RandomStream:
    """Activations of the kept tokens of a text: some leading directions are larger, a third is dropped."""

    hook_points = (HOOK,)
    d_model = D_MODEL
    provenance = PROVENANCE

    def __init__(self, text: RandomText, batch: int, *, seed: int = 1) -> None:
        generator = np.random.default_rng(seed)
        shape = text.tokens.shape
        vectors = generator.standard_normal((*shape, D_MODEL)) * np.geomspace(3, 0.3, D_MODEL)
        vectors += np.linspace(-1, 1, D_MODEL)  # a mean that is not zero
        kept = generator.random(shape) > 1 / 3
        self.sequences, self.positions = np.nonzero(kept)
        self.vectors = torch.from_numpy(vectors[self.sequences, self.positions]).float()
        self.token_ids = text.tokens[self.sequences, self.positions].astype(np.int64)
        self.batch, self.next = batch, 0

    def __len__(self) -> int:
        return len(self.vectors)

    def __iter__(self) -> Iterator[ActivationBatch]:
        while self.next < len(self):
            rows = slice(self.next, self.next + self.batch)
            self.next = min(rows.stop, len(self))
            columns = (
                torch.from_numpy(c[rows]) for c in (self.token_ids, self.sequences, self.sequences, self.positions)
            )
            yield ActivationBatch({HOOK: self.vectors[rows]}, *columns)

    def state_dict(self) -> dict[str, Any]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.next = state["next"]


def small_autoencoder(
    n_latents: int = 6, prior: str = "composite", seed: int = 2, lens: str = "paper"
) -> BilinearAutoencoder:
    """A few latents of different rank, with an offset that is not zero."""
    size = {"mixing_density": 0.3, "n_hidden": 10} if prior == "composite" else {}
    known = zoo.affine_lens().float() if lens == "affine" else None
    ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=n_latents, prior=prior, seed=seed, lens=known, **size)
    with torch.no_grad():
        ae.offset.normal_(0, 0.01, generator=torch.Generator().manual_seed(4))
    return ae
