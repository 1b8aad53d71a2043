"""`quadric corpus`: which corpora are embedded, and what a corpus contains."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, OptionalInt, OptionalText, Taken, flag_group
from quadric.cli.output import say, say_json, this_command
from quadric.data.settings import CorpusConfig

if TYPE_CHECKING:
    from quadric.data.corpus import CorpusStatistics


TextFlags = flag_group(
    "TextFlags",
    Taken(
        CorpusConfig,
        (
            *("source", "subset", "revision", "hub_split", "text_field", "topic_field", "document_separator", "split"),
            *("held_out_fraction", "seed"),
        ),
        renamed={"source": "corpus", "revision": "corpus_revision"},
    ),
)
TextGroup: TypeAlias = Annotated[
    FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TextFlags, name="text")
]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """List the embedded corpora, or look into any corpus with --stats or --show.

    Example: quadric corpus --corpus wiki-leads --stats --model smollm2
    """

    source: TextGroup = field(default_factory=TextFlags)
    """The corpus, and how it is split into documents."""
    stats: bool = False
    """Count documents, words, topics, and tokens if a model is given."""
    show: int = 0
    """Print so many documents, in the order in which they are read."""
    model: OptionalText = None
    """Count tokens with this model's tokenizer."""
    limit: OptionalInt = None
    """Count only so many documents, e.g. of a hub dataset that is too large to read completely."""
    json: bool = False
    """Print the answer as JSON."""

    def run(self) -> int:
        if not self.stats and not self.show:
            return self._list()
        config = CorpusConfig(**self.source.given(CorpusConfig))
        if self.show:
            self._show(config)
        if self.stats:
            self._stats(config)
        return 0

    def _list(self) -> int:
        from quadric.data.corpus.sources import CORPORA

        resources = [corpus.resource for corpus in CORPORA.values()]
        if self.json:
            say_json([asdict(resource) for resource in resources], indent=1)
            return 0
        for resource in resources:
            say(f"{resource.name}: {resource.attribution} ({resource.licence}; {resource.package} {resource.version})")
        say(f"Look inside with: {this_command()} corpus --corpus NAME --stats")
        return 0

    def _show(self, config: CorpusConfig) -> None:
        from itertools import islice

        from quadric.data.corpus import ordered_documents

        documents = list(islice(ordered_documents(config), self.show))
        if self.json:
            say_json([asdict(document) for document in documents], indent=1)
            return
        for document in documents:
            topic = f" [{document.topic}]" if document.topic else ""
            say(f"document {document.index}{topic}\n{document.text}\n")

    def _stats(self, config: CorpusConfig) -> None:
        from quadric.data.corpus import corpus_statistics

        encoder = None
        if self.model is not None:
            from quadric.data.models import find_model, load_shape

            encoder = load_shape(find_model(self.model)).tokenizer
        statistics = corpus_statistics(config, encoder, self.limit)
        if self.json:
            # asdict makes another counter of a counter's pairs
            say_json({"corpus": config.source, **asdict(statistics), "topics": dict(statistics.topics)}, indent=1)
        else:
            _print_table(config.source, statistics)


def _print_table(name: str, statistics: "CorpusStatistics") -> None:
    from rich.table import Table

    from quadric._io.terminal import safe_console

    n, n_held_out, n_tokens = statistics.documents, statistics.held_out_documents, statistics.tokens
    table = Table("", name, show_header=True)
    table.add_row("documents", f"{n:,}")
    table.add_row("held out", f"{n_held_out:,} ({n_held_out / n:.1%})")
    table.add_row("words", f"{statistics.words:,}")
    table.add_row("tokens", "not counted; name a --model" if n_tokens is None else f"{n_tokens:,}")
    table.add_row("characters", f"{statistics.characters:,}")
    table.add_row("characters per document", f"{statistics.shortest:,} to {statistics.longest:,}")
    table.add_row("topics", f"{len(statistics.topics):,}")
    for topic, count in statistics.topics.most_common():
        table.add_row(f"  {topic}", f"{count:,}")
    safe_console().print(table)
