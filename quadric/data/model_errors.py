"""Load models quietly: no progress bars or warnings of other libraries, and a one-line error with a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any


class ModelError(ValueError):
    """A language model that cannot be found or loaded."""


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings of transformers while a model loads."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The GGUF reader's progress bar has no setting that turns it off.
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def plain_errors(name: str, location: str, gguf_file: str | None = None) -> Iterator[None]:
    """Turn any exception of a loader into a one-line error with a remedy."""
    try:
        with quiet():
            yield
    except Exception as failure:
        raise ModelError(_explanation(name, location, gguf_file, failure)) from failure


def _explanation(name: str, location: str, gguf_file: str | None, failure: Exception) -> str:
    reason = f"{type(failure).__name__}: {failure}".strip().splitlines()[0]
    if isinstance(failure, ModuleNotFoundError):
        return f"reading language models needs the package {failure.name}; install it with: pip install 'quadric[lm]'"
    if gguf_file:
        return f"cannot read {location}/{gguf_file} ({reason}); the file may be damaged or cut off: download it again"
    if Path(location).is_dir():
        return f"cannot read the model in {location} ({reason}); write it again with save_pretrained"
    kinds = _kinds(failure)
    if "GatedRepoError" in kinds:
        return f"model '{name}' is gated; accept its licence on the hub and run `hf auth login`"
    if kinds & {"RepositoryNotFoundError", "RevisionNotFoundError"}:
        return f"the hub has no model '{name}' (or not this revision); check the spelling"
    return (
        f"cannot load model '{name}' from the hub ({reason}); check the name and the network, or give a local folder, "
        "a .gguf file, or smollm2"
    )


def _kinds(failure: BaseException) -> set[str]:
    """Class names of an exception and of its causes, since loaders wrap the hub's errors in their own."""
    kinds: set[str] = set()
    link: BaseException | None = failure
    while link is not None and len(kinds) < 10:
        kinds.add(type(link).__name__)
        link = link.__cause__ or link.__context__
    return kinds
