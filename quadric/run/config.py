"""The complete config of a run, stored as run.json: enough to start the same run on another machine."""

import math
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from quadric._io.files import read_versioned_json, write_json
from quadric._io.records import record_from_json
from quadric.data import ActivationConfig, find_model
from quadric.data.corpus import TokenBlocks
from quadric.data.corpus.sources import kind_of
from quadric.data.models import load_shape
from quadric.run.folder import RUN_CONFIG_NAME
from quadric.train.settings import Cell, Training

FILE_NAME = RUN_CONFIG_NAME
FORMAT = "quadric-run"
FORMAT_VERSION = 9


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Which activations are read, which dictionaries are trained, and how."""

    activations: ActivationConfig | None
    """Activations to train on; None for rows that were passed to `quadric.fit`."""
    cells: tuple[Cell, ...]
    """What is trained."""
    training: Training
    sequences_per_step: int = 32
    """Sequences per batch, over all processes together."""
    epochs: int = 1
    """How many times the text may be read; the number of steps determines how much of it is."""
    cache: str | None = None
    """Folder of stored activations, read instead of running the language model."""
    tokens_per_step: int | None = None
    """Rows per batch, if the run was given rows."""
    continued_from: tuple[int, ...] = ()
    """Earlier values of `steps`, if the run was extended; the schedules follow the current value."""
    started_from: str | None = None
    """Hash of the weights that training started from; None for a random initialization."""

    def __post_init__(self) -> None:
        for name in ("sequences_per_step", "epochs", "tokens_per_step"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name}={value} is not positive; give at least 1")
        names = [cell.name for cell in self.cells]
        if not names:
            raise ValueError("there is no dictionary to train; give at least one kind")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the run trains {', '.join(twice)} twice; give them different seeds, or remove one")
        for cell in self.cells:
            self.training.check_loss(cell.loss)

    @property
    def reading(self) -> ActivationConfig:
        """The activations to read from a language model; an error if the run was given rows."""
        if self.activations is None:
            raise ValueError(
                "this run was given rows in Python, which are not stored with it; continue it from Python: "
                "quadric.fit(x, out=RUN, resume=True)"
            )
        return self.activations

    @property
    def sequences(self) -> int:
        """Number of sequences that the whole run reads."""
        return self.training.steps * self.sequences_per_step

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is stored."""
        return asdict(self) | {"cells": [cell.as_json() for cell in self.cells]}


def write_run_config(config: RunConfig, folder: Path) -> None:
    """Store a run's config in its folder."""
    write_json(folder / FILE_NAME, {"format": FORMAT, "format_version": FORMAT_VERSION, **config.as_json()})


def read_run_config(folder: Path) -> RunConfig:
    """Read a run's config from its folder; unknown or missing keys are errors."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {FILE_NAME} in '{folder}'; give a folder written by quadric train")
    record = read_versioned_json(path, FORMAT, FORMAT_VERSION, "a run", "restore it")
    if record["format_version"] < FORMAT_VERSION:
        raise ValueError(
            f"{path} was written by an earlier Quadric (format {record['format_version']}), which continues it; its "
            "trained dictionaries load as before: quadric.load(folder)"
        )
    del record["format"], record["format_version"]
    return record_from_json(RunConfig, record | {"cells": cells_from_json(record.get("cells"), path)}, str(path))


def cells_from_json(cells: object, path: Path) -> tuple[Cell, ...]:
    """The cells that a file stores."""
    if not isinstance(cells, list):
        raise ValueError(f"{path} has no list of cells; restore it")
    return tuple(Cell.from_json(cell, f"{path}: cells[{index}]") for index, cell in enumerate(cells))


def check_text_suffices(config: RunConfig) -> None:
    """Raise if the text is too short for the number of steps; the text is read only as far as needed.

    A hub dataset is not checked, since that would download it; if it ends early, training raises an error then.
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
    needed_per_epoch = math.ceil(config.sequences / config.epochs)
    check_enough(
        sum(1 for _ in islice(blocks, needed_per_epoch)), config, f"the corpus '{corpus.source}' ({corpus.split})"
    )


def check_enough(sequences: int, config: RunConfig, where: str) -> None:
    """Raise if this number of sequences per epoch is too small for the run."""
    if sequences * config.epochs >= config.sequences:
        return
    needed = math.ceil(config.sequences / sequences)
    raise ValueError(
        f"{where} has {sequences:,} sequences, too few for steps={config.training.steps} of "
        f"{config.sequences_per_step} sequences in epochs={config.epochs}; give epochs={needed}, "
        f"at most {sequences * config.epochs // config.sequences_per_step} steps, or more text"
    )
