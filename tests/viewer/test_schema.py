"""The schema and its TypeScript mirror agree."""

import re
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from quadric.model.provenance import Provenance
from quadric.viewer import schema
from quadric.viewer.encoding import latent_tensors
from tests.viewer.synthetic import synthetic_dictionary, synthetic_text

TWIN = (Path(__file__).parents[2] / "web/src/data/schema.ts").read_text(encoding="utf-8")
RECORDS = [
    Provenance,
    schema.Sampling,
    schema.Quality,
    schema.LabelMethods,
    schema.DictionaryEntry,
    schema.TextEntry,
    schema.ComparisonEntry,
    schema.SiteManifest,
    schema.LabelScore,
    schema.LatentLabel,
    schema.Cluster,
    schema.PatternControl,
    schema.PatternKind,
    schema.PatternSearch,
    schema.LatentPattern,
    schema.LatentClusters,
]


def in_typescript(hint: Any) -> str:
    if get_origin(hint) is UnionType:
        return " | ".join("null" if each is NoneType else in_typescript(each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return f"{in_typescript(get_args(hint)[0])}[]"
    if get_origin(hint) is dict:
        return "Record<string, unknown>"
    return {str: "string", int: "number", float: "number", bool: "boolean"}.get(hint) or hint.__name__


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_has_the_same_fields_of_the_same_types(record):
    (body,) = re.findall(rf"export interface {record.__name__} {{(.*?)\n}}", TWIN, re.DOTALL)
    twin = dict(re.findall(r"^  (\w+): (.*);$", body, re.MULTILINE))
    assert twin == {name: in_typescript(hint) for name, hint in get_type_hints(record).items()}


def test_there_is_no_interface_that_python_does_not_know():
    assert set(re.findall(r"export interface (\w+)", TWIN)) == {record.__name__ for record in RECORDS}


@pytest.mark.parametrize(
    "name",
    [
        *("SCHEMA_VERSION", "SHARD_TOKENS", "FINE_AXES", "MOST_EIGENVALUES", "CONTEXT_REACH", "MOST_CLUSTERS"),
        *("TOKENS_PER_LATENT", "NOTHING"),
    ],
)
def test_a_number_is_the_same(name):
    (value,) = re.findall(rf"export const {name} = (-?\d+);", TWIN)
    assert int(value) == getattr(schema, name)


def listed(name: str) -> list[str]:
    (body,) = re.findall(rf"export const {name} = \[(.*?)\] as const", TWIN, re.DOTALL)
    return re.findall(r'"([\w -]+)"', body)


def test_names_are_the_same():
    assert f'export const FORMAT = "{schema.FORMAT}"' in TWIN
    assert tuple(listed("SHAPES")) == schema.SHAPES
    assert tuple(listed("UNITS")) == schema.UNITS
    assert listed("COLUMNS") == [field.name for field in fields(schema.LatentColumns)]


def test_a_latents_file_has_the_tensors_that_the_viewer_reads():
    record = next(iter(synthetic_dictionary(synthetic_text(5_000), n_latents=1, n_points=20).latents))
    assert set(latent_tensors(record)) == set(listed("LATENT_TENSORS"))
