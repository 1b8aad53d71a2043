"""Dataclasses come back from JSON exactly, and anything else than their fields is refused."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

import pytest

from quadric._io.records import record_from_json


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Outer:
    count: int
    share: float
    limit: int | None
    flag: bool
    kind: Literal["a", "b"]
    inner: Inner
    several: tuple[Inner, ...]
    by_number: dict[int, Inner]
    maybe: list[Inner | None] | None = None


OUTER = Outer(3, 0.5, None, True, "a", Inner("x"), (Inner("y"), Inner("z")), {4: Inner("u")}, [None, Inner("v")])


def test_a_record_comes_back(tmp_path) -> None:
    assert record_from_json(Outer, json.loads(json.dumps(asdict(OUTER))), "file") == OUTER


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": "3"}, r"^file: count='3' is not a whole number; was the file edited\?"),
        ({"count": True}, r"count=True is not a whole number"),
        ({"count": 3.0}, r"count=3.0 is not a whole number"),
        ({"share": "half"}, r"share='half' is not a finite number"),
        ({"limit": "none"}, r"limit='none' is not a whole number or None"),
        ({"kind": 1}, r"kind=1 is not 'a' or 'b'"),
        ({"inner": {}}, r"file: inner lacks the keys \['name'\]"),
        ({"inner": "x"}, r"file: inner is 'x'; expected an object"),
        ({"several": [{"name": "y"}, {"name": 2}]}, r"file: several\[1\]: name=2 is not text"),
        ({"by_number": {"x": {"name": "y"}}}, r"by_number has the key 'x', which is no number"),
        ({"by_number": {"5": 5}}, r"by_number\['5'\] is 5; expected an object"),
        ({"maybe": [{}]}, r"maybe\[0\] lacks the keys \['name'\]"),
        ({"extra": 1}, r"file has unknown keys \['extra'\]"),
    ],
)
def test_other_keys_and_types_are_refused_by_name(change: dict[str, object], message: str) -> None:
    values = json.loads(json.dumps(asdict(OUTER))) | change
    with pytest.raises(ValueError, match=message):
        record_from_json(Outer, values, "file")


def test_a_whole_number_may_stand_for_a_float() -> None:
    values = json.loads(json.dumps(asdict(OUTER))) | {"share": 1}
    share = record_from_json(Outer, values, "file").share
    assert share == 1
    assert isinstance(share, float)
