"""Results in files that the user names: everything as JSON, a table as CSV, or a picture, chosen by the ending."""

import json
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from quadric._io.files import write_atomically

TABLE_ENDINGS = (".csv", ".json")


def check_endings(paths: Iterable[Path], known: Iterable[str] = TABLE_ENDINGS) -> None:
    """Refuse unknown endings, folders, and endings whose package is not installed, before anything is computed."""
    needs = {".png": ("matplotlib", "figures")}
    for path in paths:
        if path.suffix == ".html":
            raise ValueError(
                f"'{path}': only quadric site writes HTML; open a run in the browser with quadric view, "
                f"or choose one of {', '.join(sorted(known))}"
            )
        if path.suffix not in known:
            raise ValueError(f"'{path}' ends in '{path.suffix}'; choose one of {', '.join(sorted(known))}")
        if path.is_dir():
            raise ValueError(f"'{path}' is a folder; give the name of a file")
        package, extra = needs.get(path.suffix, ("json", ""))
        if find_spec(package) is None:
            raise ValueError(f"'{path}' needs {package}; install it with: pip install 'quadric[{extra}]'")


def write_result(path: Path, contents: Mapping[str, Callable[[], str | bytes]]) -> None:
    """Write a file with the content that belongs to its ending, and the folders above it.

    Args:
        path: The file.
        contents: What makes the content, by ending.
    """
    check_endings([path], contents)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = contents[path.suffix]()
    write_atomically(path, content.encode() if isinstance(content, str) else content)


def json_text(values: object, indent: int | None = None) -> str:
    """JSON with a final line break, as results are stored; numbers must be finite."""
    return json.dumps(values, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
