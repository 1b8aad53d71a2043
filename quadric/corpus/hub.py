"""Documents of a hub dataset, streamed: nothing is downloaded whole."""

from collections.abc import Iterator
from typing import Any

from quadric.corpus.config import CorpusConfig, CorpusError, Document
from quadric.corpus.local_files import text_and_topic


def commit_of(config: CorpusConfig) -> str:
    """The commit behind a revision, so that a run can be repeated after the dataset changed."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().dataset_info(config.source, revision=config.revision)
    except Exception as failure:
        raise unreachable(config, failure) from failure
    return str(info.sha)


def read(config: CorpusConfig) -> Iterator[Document]:
    """Documents of a hub dataset in its own order."""
    try:
        records = iter(_open(config))
    except Exception as failure:
        raise unreachable(config, failure) from failure
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
        raise unreachable(config, failure) from failure


def unreachable(config: CorpusConfig, failure: Exception) -> CorpusError:
    """One line out of the many that the hub's client gives."""
    if isinstance(failure, CorpusError):
        return failure
    reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return CorpusError(
        f"cannot read hub dataset '{config.source}' ({reason}); check its name, its subset and the network, "
        "or download it and give the folder"
    )
