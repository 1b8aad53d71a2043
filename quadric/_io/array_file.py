"""Arrays in one safetensors file: written without a second copy in memory, read by memory mapping."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from quadric._io.files import WrittenFile, write_pieces

Array = np.ndarray

TYPE_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint64": "U64",
    "uint8": "U8",
    "bool": "BOOL",
}
PIECE = 1 << 24
"""Bytes per write."""


class ReadArrays(NamedTuple):
    """The arrays of a file by name, and its metadata."""

    arrays: dict[str, Array]
    metadata: dict[str, str]


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> WrittenFile:
    """Write arrays piece by piece; the writer of safetensors would first copy all of them into one string."""
    return write_pieces(path, _pieces(arrays, metadata or {}))


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
    text += b" " * (-len(text) % 8)  # so that the arrays begin at a multiple of their item size
    return len(text).to_bytes(8, "little") + text


def sha256_of_arrays(arrays: Mapping[str, Array], *more: str) -> str:
    """Hash of the names, types, shapes and values of arrays, and of some text; independent of their order."""
    digest = hashlib.sha256(json.dumps(more).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read_arrays(path: Path) -> ReadArrays:
    """Read the arrays of a file; their bytes are loaded from disk on first access."""
    try:
        with safe_open(path, framework="pt") as file:
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118, not a mapping
            return ReadArrays(arrays, file.metadata() or {})
    except (SafetensorError, ValueError, TypeError, KeyError, OSError) as problem:
        raise ValueError(f"{path} is damaged ({problem}); delete it and write it again") from None
