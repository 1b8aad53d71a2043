"""The page: complete, escaped, and in need of nothing else."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from quadric.model import Provenance
from quadric.studies.reports.page import COLUMNS, report_as_page
from quadric.studies.reports.run_report import report_on
from tests.geometry.examples import planted_shapes

NASTY = """</title><script>alert("1")</script><img src='http://example.com/x'>&"""


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "rect", "circle", "polyline", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


@pytest.fixture
def text():
    ae = planted_shapes()
    ae.provenance = Provenance(model=NASTY, corpus=NASTY, hook_point=NASTY)
    return report_as_page(report_on(NASTY, ae))


def test_whatever_comes_from_the_run_is_escaped(text):
    assert NASTY not in text
    assert text.count("&lt;script&gt;alert(&quot;1&quot;)") == 5  # title, heading and three facts
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags


def test_the_page_needs_no_network(text):
    page = Page(text)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href", "srcset", "action"}
    assert not {"link", "iframe", "img"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert ("http-equiv", "Content-Security-Policy") in page.attributes


def test_every_tag_is_closed(text):
    closed = Page(text)
    assert set(closed.open) <= {"option"}


def test_the_table_holds_every_latent_most_important_first(text):
    body = text[text.index('id="latents"') :]
    rows = re.findall(r'<tr data-shape="(\w+)"><td data-value="(\d+)">', body)
    assert [int(latent) for _, latent in rows][:3] == [5, 3, 0]
    assert sorted(int(latent) for _, latent in rows) == list(range(6))
    assert ("empty", "4") in rows
    for figure in ("circle", "sphere", "hyperbola", "slab", "ellipse, −"):
        assert f">{figure}</td>" in body


PROVENANCE = Provenance(
    model="smollm2",
    model_revision="0123456789abcdef" * 4,
    corpus="wiki-leads",
    block_length=1256,
    corpus_settings={"subset": None, "held_out_fraction": 0.05, "text_field": "text"},
    token_rules={"outliers": "drop", "outlier_factor": 10.0, "keep_all": False, "nested": {"a_b": 1}},
)


def test_facts_are_words_and_not_python():
    ae = planted_shapes()
    ae.provenance = PROVENANCE
    text = report_as_page(report_on("run", ae))
    facts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text[: text.index("<h2>Shapes")])
    assert not [value for _, value in facts if re.search(r"[{}]|None|True|False|&#x27;", value)]
    found = dict(facts)
    assert found["model revision"] == "0123456789ab…"
    assert found["block length"] == "1,256"
    assert found["held out fraction"] == "0.05"
    assert found["keep all"] == "no"
    assert found["nested"] == "a b 1"
    assert "subset" not in found
    for heading in ("Autoencoder", "Trained on", "Text settings", "Token rules"):
        assert f"<h3>{heading}</h3>" in text


def test_every_column_is_explained(text):
    meanings = text[text.index("What the columns mean") : text.index("</details>")]
    shown = [name for name in COLUMNS if name != "label"]
    assert meanings.count("<dt>") == len(shown)
    assert all(COLUMNS[name].meaning.endswith(".") for name in COLUMNS)
    assert "<th title=" in text


def test_labels_are_shown_where_they_are_known():
    report = report_on("run", planted_shapes())
    assert 'class="words label"' not in report_as_page(report)
    text = report_as_page(replace(report, labels=["<b>days</b>", *["x"] * 5]))
    assert '<td class="words label" data-value="&lt;b&gt;days&lt;/b&gt;">&lt;b&gt;days&lt;/b&gt;</td>' in text
    assert "the labels come from the run&#x27;s evidence" in text
