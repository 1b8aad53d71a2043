"""Files, folders and globs become documents; what cannot be read is named."""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from quadric.corpus import CorpusConfig, CorpusError, identify, read_documents


def texts_of(source: Path | str, **settings: object) -> list[str]:
    return [document.text for document in read_documents(CorpusConfig(source=str(source), **settings))]


def write_jsonl(path: Path, records: list[object]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, columns: dict[str, list[object]]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_a_text_file_is_one_document_or_cut_by_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Erste Strophe é\n\nzweite\n\n\n", encoding="utf-8")
    assert texts_of(path) == ["Erste Strophe é\n\nzweite\n\n\n"]
    assert texts_of(path, document_separator="\n\n") == ["Erste Strophe é", "zweite"]


def test_jsonl_gives_a_field_and_a_topic(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": "one", "kind": "x"}, {"body": "two", "kind": 7}])
    documents = list(read_documents(CorpusConfig(source=str(path), text_field="body", topic_field="kind")))
    assert [(each.index, each.text, each.topic) for each in documents] == [(0, "one", "x"), (1, "two", "7")]


def test_parquet_gives_a_column_and_a_topic(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"], "kind": ["x", None], "other": [1, 2]})
    documents = list(read_documents(CorpusConfig(source=str(path), topic_field="kind")))
    assert [(each.text, each.topic) for each in documents] == [("one", "x"), ("two", None)]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"text": "packed"}\n')
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("also packed")
    assert texts_of(tmp_path) == ["packed", "also packed"]


def test_a_folder_and_a_glob_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    write_jsonl(tmp_path / "deep" / "c.jsonl", [{"text": "c"}])
    (tmp_path / "notes.md").write_text("not a corpus file")
    assert texts_of(tmp_path) == ["a", "b", "c"]
    assert texts_of(f"{tmp_path}/*.txt") == ["a", "b"]
    assert texts_of(f"{tmp_path}/**/*.jsonl") == ["c"]


def test_blank_documents_are_left_out_and_keep_their_number(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "one"}, {"text": " \n"}, {"text": "three"}])
    documents = list(read_documents(CorpusConfig(source=str(path))))
    assert [(each.index, each.text) for each in documents] == [(0, "one"), (2, "three")]


def test_files_are_identified_by_name_and_content_wherever_they_lie(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place / "texts").mkdir(parents=True)
        (tmp_path / place / "texts" / "a.txt").write_text("same")
    one, two = (CorpusConfig(source=str(tmp_path / place / "texts")) for place in ("one", "two"))
    assert identify(one) == identify(two)
    assert identify(one).name == "texts"
    (tmp_path / "two" / "texts" / "a.txt").write_text("different")
    assert identify(one).revision != identify(two).revision


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.jsonl", b'{"text": "fine"}\n{broken\n', r"bad.jsonl, line 2 is not JSON .* one object a line"),
        ("list.jsonl", b"[1, 2]\n", r"list.jsonl, line 1 holds no object"),
        ("field.jsonl", b'{"body": "x", "id": 1}\n', r"record 1 has no text in field 'text'; .* body, id"),
        ("type.jsonl", b'{"text": 5}\n', r"record 1 has no text in field 'text'"),
        ("latin.txt", "é".encode("latin-1"), r"latin.txt is not UTF-8 text .* iconv"),
        ("bad.parquet", b"PAR1 but not really", r"bad.parquet is not a readable parquet file"),
        ("notes.md", b"text", r"notes.md is not a corpus file; give .txt, .jsonl, .parquet"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=words) as caught:
        texts_of(f"{tmp_path}/./{name}")
    assert "\n" not in str(caught.value)


def test_a_parquet_file_without_the_column_names_those_it_has(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"body": ["x"], "id": [1]})
    with pytest.raises(CorpusError, match=r"no text in field 'text'; name one of its fields: body, id"):
        texts_of(path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file or folder '.*missing.txt'; check the path"):
        texts_of(tmp_path / "missing.txt")
    with pytest.raises(CorpusError, match=r"no \.txt, .* file in"):
        texts_of(f"{tmp_path}/*.txt")
    with pytest.raises(CorpusError, match=r"no \.txt, .* file in"):
        texts_of(tmp_path)
    with pytest.raises(CorpusError, match=r"unknown corpus 'nonsense'; give one of wiki-leads"):
        texts_of("nonsense")
