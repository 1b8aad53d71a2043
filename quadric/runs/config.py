"""What a run is asked to do, whole: stored as run.json, enough to start it again anywhere."""

import json
import math
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from quadric.activations import ActivationConfig, find_model
from quadric.activations.models import load_shape
from quadric._records import record_from_json
from quadric._files import read_versioned_json, write_atomically
from quadric.corpus import TokenBlocks
from quadric.corpus.sources import kind_of
from quadric.training import AutoencoderConfig, TrainingConfig

FILE_NAME = "run.json"
FORMAT = "quadric-run"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Which activations, which autoencoders, fitted how."""

    activations: ActivationConfig
    autoencoders: tuple[AutoencoderConfig, ...]
    training: TrainingConfig
    sequences_per_step: int = 32
    """Sequences in a batch, over all processes together."""
    epochs: int = 1
    """How often the text may be read; the steps decide how much of it is."""
    cache: str | None = None
    """Folder of stored activations to read instead of running the language model."""

    def __post_init__(self) -> None:
        for name in ("sequences_per_step", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        names = [each.name for each in self.autoencoders]
        if not names:
            raise ValueError("there is no autoencoder to train; name at least one prior")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the run trains {', '.join(twice)} twice; vary the seed, or leave one out")

    @property
    def sequences(self) -> int:
        """All that the run reads."""
        return self.training.steps * self.sequences_per_step


def write_run_config(config: RunConfig, folder: Path) -> None:
    """Store a run's config in its folder."""
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(config)}
    write_atomically(folder / FILE_NAME, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


def read_run_config(folder: Path) -> RunConfig:
    """Read it back, refusing whatever is not exactly that."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {FILE_NAME} in '{folder}'; give a folder that quadric train made")
    record = read_versioned_json(path, FORMAT, FORMAT_VERSION, "a run", "restore it")
    del record["format"], record["format_version"]
    return record_from_json(RunConfig, record, str(path))


def check_text_suffices(config: RunConfig) -> None:
    """Raise if the text is too short for the steps; read no further than needed, and no hub dataset at all.

    A hub dataset is as long as the network is patient: if it ends early, training says so when it gets there.
    """
    corpus = config.activations.corpus
    if kind_of(corpus.source) == "hub":
        return
    tokenizer = load_shape(find_model(config.activations.model, config.activations.model_revision)).tokenizer
    blocks = TokenBlocks(
        corpus, tokenizer, bos=config.activations.rules.bos_of(tokenizer), separator=tokenizer.separator
    )
    an_epoch = math.ceil(config.sequences / config.epochs)
    check_enough(sum(1 for _ in islice(blocks, an_epoch)), config, f"the corpus '{corpus.source}' ({corpus.split})")


def check_enough(sequences: int, config: RunConfig, where: str) -> None:
    """Raise if so many sequences an epoch are too few."""
    if sequences * config.epochs >= config.sequences:
        return
    needed = math.ceil(config.sequences / sequences)
    raise ValueError(
        f"{where} has {sequences:,} sequences, too little for steps={config.training.steps} of "
        f"{config.sequences_per_step} in epochs={config.epochs}; give epochs={needed}, "
        f"at most {sequences * config.epochs // config.sequences_per_step} steps, or more text"
    )
