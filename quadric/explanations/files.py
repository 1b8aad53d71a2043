"""Explanations as files, their kind chosen by the name's ending."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from quadric._io.csv import csv_text
from quadric._io.files import check_endings, write_atomically
from quadric.explanations.record import Explanation

COLUMNS = ("text", "position", "token", "rank", "latent", "label", "value", "quantile", "share", "strength")


def _json(found: Sequence[Explanation]) -> str:
    return json.dumps([each.as_json() for each in found], ensure_ascii=False, allow_nan=False) + "\n"


def _csv(found: Sequence[Explanation]) -> str:
    rows = (
        (text, place, token.text, rank, *(getattr(latent, name) for name in COLUMNS[4:]))
        for text, each in enumerate(found)
        for place, token in enumerate(each.tokens)
        for rank, latent in enumerate(token.latents)
    )
    return csv_text(COLUMNS, rows)


_WRITERS: dict[str, Callable[[Sequence[Explanation]], str]] = {".csv": _csv, ".json": _json}


def check_explanation_paths(paths: Iterable[Path]) -> None:
    """Refuse a path that `write_explanations` cannot write, before anything is computed."""
    check_endings(paths, _WRITERS)


def write_explanations(found: Sequence[Explanation], path: Path) -> None:
    """Write everything (.json) or one row per token and latent (.csv), chosen by the ending of the path."""
    check_explanation_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _WRITERS[path.suffix](found).encode())
