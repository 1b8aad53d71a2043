"""Documents of a hub dataset, streamed instead of downloaded completely."""

from collections.abc import Iterator
from typing import Any

from quadric.data.corpus.config import CorpusConfig, CorpusError, Document
from quadric.data.corpus.local_files import text_and_topic


def commit_of(config: CorpusConfig) -> str:
    """Resolve a revision to its commit, so that a run can be repeated after the dataset changes."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().dataset_info(config.source, revision=config.revision)
    except Exception as failure:
        raise hub_error(config, failure) from failure
    return str(info.sha)


def read(config: CorpusConfig) -> Iterator[Document]:
    """Documents of a hub dataset, in the order of the dataset."""
    try:
        records = iter(_open(config))
    except Exception as failure:
        raise hub_error(config, failure) from failure
    index = 0
    while (record := _next(records, config)) is not None:
        text, topic = text_and_topic(record, config, f"{config.source}, record {index}")
        yield Document(index, text, topic)
        index += 1


def _open(config: CorpusConfig) -> Any:
    from datasets import load_dataset

    return load_dataset(
        config.source, config.subset, split=config.hub_split, streaming=True, revision=commit_of(config)
    )


def _next(records: Iterator[dict[str, Any]], config: CorpusConfig) -> dict[str, Any] | None:
    try:
        return next(records, None)
    except Exception as failure:
        raise hub_error(config, failure) from failure


def hub_error(config: CorpusConfig, failure: Exception) -> CorpusError:
    """Reduce a multi-line error of the hub client to a one-line `CorpusError`."""
    if isinstance(failure, CorpusError):
        return failure
    if isinstance(failure, ModuleNotFoundError):
        return CorpusError(f"hub datasets need {failure.name}; install it with: pip install 'quadric[lm]'")
    reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return CorpusError(
        f"cannot read hub dataset '{config.source}' ({reason}); check its name, its subset and the network, "
        "or download it and pass the folder"
    )
