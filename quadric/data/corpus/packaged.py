"""The embedded corpora, and how to read documents from each package."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from quadric.data.corpus.config import Document
from quadric.data.resources import WIKI_LEADS, WIKITEXT_2, Resource, read_member

ARTICLE_TITLE = re.compile(r"^ = ([^=\n]+) = $", re.MULTILINE)

# Undoes WikiText's tokenization: ' @-@ ' inside numbers and compounds, spaces around punctuation.
WIKITEXT_RULES = [
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r" ([,.;:!?%)\]]|'s\b|n't\b)"), r"\1"),
    (re.compile(r"([(\[$£]) "), r"\1"),
    (re.compile(r'" ([^"\n]+) "'), r'"\1"'),
    (re.compile(r"^ +| +$", re.MULTILINE), ""),
    (re.compile(r"\n{3,}"), "\n\n"),
]


class PackagedCorpus(NamedTuple):
    resource: Resource
    read: Callable[[], Iterator[Document]]


def read(name: str) -> Iterator[Document]:
    """Documents of an embedded corpus."""
    return CORPORA[name].read()


def _wiki_leads() -> Iterator[Document]:
    """First paragraphs of Wikipedia's vital articles, each with its topic in Wikipedia's list."""
    articles = json.loads(read_member(WIKI_LEADS, WIKI_LEADS.members[0]))
    for index, article in enumerate(articles.values()):
        yield Document(index, article["extract"], article["topic"])


def _wikitext_2() -> Iterator[Document]:
    """Complete Wikipedia articles: train, then valid, then test."""
    index = 0
    for member in WIKITEXT_2.members:
        text = gzip.decompress(read_member(WIKITEXT_2, member)).decode()
        starts = [match.start() for match in ARTICLE_TITLE.finditer(text)]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            yield Document(index, detokenized(text[start:end]))
            index += 1


def detokenized(text: str) -> str:
    """Convert WikiText's tokenized format to ordinary prose."""
    for pattern, replacement in WIKITEXT_RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


CORPORA = {
    WIKI_LEADS.name: PackagedCorpus(WIKI_LEADS, _wiki_leads),
    WIKITEXT_2.name: PackagedCorpus(WIKITEXT_2, _wikitext_2),
}
