"""Arrays in one safetensors file: written without a second copy in memory, read by mapping it."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

Array = np.ndarray

TYPE_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint64": "U64",
    "uint8": "U8",
}
PIECE = 1 << 24
"""Bytes written at once."""


class WrittenFile(NamedTuple):
    """How to tell that a file is whole."""

    bytes: int
    sha256: str


class ReadArrays(NamedTuple):
    arrays: dict[str, Array]
    metadata: dict[str, str]


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> WrittenFile:
    """Write beside, flush, rename. The library's own writer would first copy everything into one string."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    digest, size = hashlib.sha256(), 0
    try:
        with beside.open("wb") as file:
            for piece in _pieces(arrays, metadata or {}):
                file.write(piece)
                digest.update(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return WrittenFile(size, digest.hexdigest())


def _pieces(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    yield _header(arrays, metadata)
    for array in arrays.values():
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for start in range(0, len(flat), PIECE):
            yield flat[start : start + PIECE]


def _header(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, array in arrays.items():
        entries[name] = {
            "dtype": TYPE_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of their item size
    return len(text).to_bytes(8, "little") + text


def read_arrays(path: Path) -> ReadArrays:
    """The arrays of a file; their bytes are read from disk when they are touched."""
    try:
        with safe_open(path, framework="pt") as file:
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118, not a mapping
            return ReadArrays(arrays, file.metadata() or {})
    except SafetensorError as problem:
        raise ValueError(f"{path} is damaged ({problem}); delete it and make it again") from None
