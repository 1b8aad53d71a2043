"""`quadric corpus`: what text there is, and what a corpus contains."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.corpus import CorpusConfig, CorpusStatistics


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """List the embedded corpora, or look into any corpus with --stats or --show.

    Example: quadric corpus --corpus wiki-leads --stats --model smollm2
    """

    corpus: str = "wiki-leads"
    """wiki-leads, wikitext-2, a file, folder or glob (.txt, .jsonl, .parquet), or a hub dataset owner/name."""
    stats: bool = False
    """Count documents, words, topics, and tokens if a model is given."""
    show: int = 0
    """Print so many documents, in the order in which they are read."""
    model: str | None = None
    """Count tokens with this model's tokenizer."""
    limit: int | None = None
    """Count only so many documents, e.g. of a hub dataset that is too large to read whole."""
    subset: str | None = None
    """Configuration of a hub dataset, e.g. sample-10BT of FineWeb."""
    text_field: str = "text"
    """Field or column that holds the text."""
    topic_field: str | None = None
    """Field or column that holds a topic label."""
    document_separator: str | None = None
    """Cuts a .txt file into documents; a file is one document if left out."""
    held_out_fraction: float = 0.05
    """Share of the documents held out."""
    json: bool = False
    """Print the answer as JSON."""

    def run(self) -> int:
        from quadric.corpus import CorpusConfig

        if not self.stats and not self.show:
            return self._list()
        config = CorpusConfig(
            source=self.corpus,
            subset=self.subset,
            text_field=self.text_field,
            topic_field=self.topic_field,
            document_separator=self.document_separator,
            held_out_fraction=self.held_out_fraction,
        )
        if self.show:
            self._show(config)
        if self.stats:
            self._stats(config)
        return 0

    def _list(self) -> int:
        from quadric.corpus.packaged import CORPORA

        resources = [corpus.resource for corpus in CORPORA.values()]
        if self.json:
            print(json.dumps([asdict(resource) for resource in resources], indent=1))
            return 0
        for resource in resources:
            print(
                f"{resource.name}: {resource.attribution} ({resource.licence}; {resource.package} {resource.version})"
            )
        print("Look inside with: quadric corpus --corpus NAME --stats")
        return 0

    def _show(self, config: "CorpusConfig") -> None:
        from itertools import islice

        from quadric.corpus import ordered_documents

        documents = list(islice(ordered_documents(config), self.show))
        if self.json:
            print(json.dumps([asdict(document) for document in documents], indent=1, ensure_ascii=False))
            return
        for document in documents:
            topic = f" [{document.topic}]" if document.topic else ""
            print(f"document {document.index}{topic}\n{document.text}\n")

    def _stats(self, config: "CorpusConfig") -> None:
        from quadric.corpus import corpus_statistics

        encoder = None
        if self.model is not None:
            from quadric.activations.models import find_model, load_shape

            encoder = load_shape(find_model(self.model)).tokenizer
        statistics = corpus_statistics(config, encoder, self.limit)
        if self.json:
            print(json.dumps({"corpus": self.corpus, **asdict(statistics)}, indent=1, ensure_ascii=False))
        else:
            _print_table(self.corpus, statistics)


def _print_table(name: str, statistics: "CorpusStatistics") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", name, show_header=True)
    for label, value in _rows(statistics):
        table.add_row(label, value)
    for topic, count in statistics.topics.most_common():
        table.add_row(f"  {topic}", f"{count:,}")
    Console().print(table)


def _rows(statistics: "CorpusStatistics") -> list[tuple[str, Any]]:
    documents = statistics.documents
    tokens = "not counted; name a --model" if statistics.tokens is None else f"{statistics.tokens:,}"
    return [
        ("documents", f"{documents:,}"),
        ("held out", f"{statistics.held_out_documents:,} ({statistics.held_out_documents / documents:.1%})"),
        ("words", f"{statistics.words:,}"),
        ("tokens", tokens),
        ("characters", f"{statistics.characters:,}"),
        ("characters a document", f"{statistics.shortest:,} to {statistics.longest:,}"),
        ("topics", f"{len(statistics.topics):,}"),
    ]
