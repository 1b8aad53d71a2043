"""What a run is asked to do, whole: stored as run.json, enough to start it again anywhere."""

import math
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from quadric._files import read_versioned_json, write_json
from quadric._records import record_from_json
from quadric.activations import ActivationConfig, find_model
from quadric.activations.models import load_shape
from quadric.corpus import TokenBlocks
from quadric.corpus.sources import kind_of
from quadric.runs.folder import RUN_CONFIG_NAME
from quadric.training import AutoencoderConfig, TrainingConfig

FILE_NAME = RUN_CONFIG_NAME
FORMAT = "quadric-run"
FORMAT_VERSION = 2
ADDED_IN_VERSION_2: dict[str, Any] = {"tokens_per_step": None, "continued_from": [], "started_from": None}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Which activations, which autoencoders, fitted how."""

    activations: ActivationConfig | None
    """Which activations are read; None for rows that were given to `quadric.fit`."""
    autoencoders: tuple[AutoencoderConfig, ...]
    training: TrainingConfig
    sequences_per_step: int = 32
    """Sequences in a batch, over all processes together."""
    epochs: int = 1
    """How often the text may be read; the steps decide how much of it is."""
    cache: str | None = None
    """Folder of stored activations to read instead of running the language model."""
    tokens_per_step: int | None = None
    """Rows in a batch, where the run was given rows."""
    continued_from: tuple[int, ...] = ()
    """Earlier numbers of steps, if the run was continued with more; schedules follow the present number."""
    started_from: str | None = None
    """Hash of the weights that training started from, if not from random ones."""

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
    def reading(self) -> ActivationConfig:
        """Which activations are read from a language model; an error where the run was given rows."""
        if self.activations is None:
            raise ValueError(
                "this run was given rows in Python, which it does not keep; continue it there: "
                "quadric.fit(x, out=RUN, resume=True)"
            )
        return self.activations

    @property
    def sequences(self) -> int:
        """All that the run reads."""
        return self.training.steps * self.sequences_per_step


def write_run_config(config: RunConfig, folder: Path) -> None:
    """Store a run's config in its folder."""
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(config)}
    write_json(folder / FILE_NAME, record)


def read_run_config(folder: Path) -> RunConfig:
    """Read it back, refusing whatever is not exactly that."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {FILE_NAME} in '{folder}'; give a folder that quadric train made")
    record = read_versioned_json(path, FORMAT, FORMAT_VERSION, "a run", "restore it")
    if record["format_version"] == 1:
        record |= ADDED_IN_VERSION_2
    del record["format"], record["format_version"]
    return record_from_json(RunConfig, record, str(path))


def check_text_suffices(config: RunConfig) -> None:
    """Raise if the text is too short for the steps; read no further than needed, and no hub dataset at all.

    A hub dataset is as long as the network is patient: if it ends early, training says so when it gets there.
    """
    if config.activations is None:
        return
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
