"""Ways to damage a file: bytes that flip, end early or go on, and JSON that says something else or hostile."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, -(10**400), 1e308, 0.5),
    *("", "x", "..", "../../victim/file", "/etc/passwd", "a/b", "\x00", "\x1b[31m", "\u202e", "x" * 10_000),
    *([], [None], {}, {"": {}}, [[[[[]]]]], ["x", 1]),
]
DEEP = b"[" * 100_000
NO_FILE = [b"", b"null", b"[]", b"{}", b"0", b'"\\ud800"', b"\xff\xfe\x00", b"{" * 5000, DEEP, b"\x00" * 4096]


def damaged_bytes(whole: bytes) -> st.SearchStrategy[bytes]:
    """Flipped bits, pieces overwritten, cut off or appended, and files of another kind."""
    place = st.integers(0, max(0, len(whole) - 1))
    flip = st.tuples(place, st.integers(0, 7)).map(
        lambda at: _changed(whole, at[0], bytes([whole[at[0]] ^ 1 << at[1]]))
    )
    overwrite = st.tuples(place, st.binary(min_size=1, max_size=40)).map(lambda at: _changed(whole, *at))
    cut = place.map(lambda size: whole[:size])
    begin = place.map(lambda size: whole[size:])
    extend = st.binary(min_size=1, max_size=40).map(lambda more: whole + more)
    return st.one_of(flip, flip, overwrite, cut, begin, extend, st.sampled_from([whole * 2, *NO_FILE]))


def damaged_json(whole: bytes) -> st.SearchStrategy[bytes]:
    """The same JSON with one value replaced, removed or added; its text may also be damaged as bytes."""
    values = json.loads(whole)
    paths = list(_paths(values))

    def changed(choice: tuple[tuple[Any, ...], Any, str]) -> bytes:
        path, value, way = choice
        return json.dumps(_edited(values, path, value, way)).encode()

    edited = st.tuples(
        st.sampled_from(paths), st.sampled_from(HOSTILE), st.sampled_from(["replace", "replace", "remove", "add"])
    ).map(changed)
    return st.one_of(edited, edited, damaged_bytes(whole))


def _changed(whole: bytes, place: int, piece: bytes) -> bytes:
    return whole[:place] + piece + whole[place + len(piece) :]


def _paths(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for name, value in list(members)[:40]:
        yield from _paths(value, (*path, name))


def _edited(values: Any, path: tuple[Any, ...], value: Any, way: str) -> Any:
    """A copy of the values with a change at the path."""
    values = json.loads(json.dumps(values))
    if not path:
        return value
    parent = values
    for name in path[:-1]:
        parent = parent[name]
    if way == "remove":
        del parent[path[-1]]
    elif way == "add" and isinstance(parent, dict):
        parent["unknown"] = value
    else:
        parent[path[-1]] = value
    return values


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """The file with other content; afterwards it is as it was."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def outcome(read: Callable[[], Any], file: Path) -> Any:
    """What a reader returns, or its refusal: one line that names the file or its folder and a remedy."""
    try:
        return read()
    except (ValueError, OSError) as problem:
        message = str(problem)
        assert "\n" not in message, message
        assert len(message) < 2000, message
        named = [file.name, *map(str, list(file.parents)[:2])]
        assert any(name in message for name in named), f"{message} does not name {file}"
        assert ";" in message, f"{message} names no remedy"
        return problem
