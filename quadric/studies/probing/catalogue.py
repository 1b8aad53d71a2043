"""The packaged data sets: what each label means, where it is from, and which ones are left out.

Three sources need no hub: the CSV files of the wheel `sae-probes`, topics of the held-out documents of `wiki-leads`,
and sentences made here from words with a known place on a line or a circle (`sentences`). The wheel
is read as an archive and never imported. Its author's code is under the MIT licence, but each set has terms of its own.
A licence is named where the public page of the source states it; for the others the catalogue refers to the source.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from quadric.data.corpus import CorpusConfig, ordered_documents
from quadric.data.resources import SAE_PROBES, WIKI_LEADS, read_member
from quadric.studies.probing.labelled import LabelKind, LabelledSet
from quadric.studies.probing.sentences import SENTENCE_SETS

FOLDER = "sae_probes/data/cleaned_data"
UNCONFIRMED = "for its terms see the source"

SOURCES = {
    "world-models": "Gurnee and Tegmark, 2023, github.com/wesg52/world-models; MIT",
    "sciq": "Welbl et al., 2017, huggingface.co/datasets/allenai/sciq; CC BY-NC 3.0",
    "sae-probes": f"made by the authors of sae-probes; {UNCONFIRMED}",
    "truthfulqa": "Lin et al., 2021, huggingface.co/datasets/truthfulqa/truthful_qa; Apache-2.0",
    "mctaco": f"Zhou et al., 2019, github.com/CogComp/MCTACO; {UNCONFIRMED}",
    "piqa": f"Bisk et al., 2020, github.com/ybisk/ybisk.github.io; {UNCONFIRMED}",
    "quail": "Rogers et al., 2020, huggingface.co/datasets/textmachinelab/quail; CC BY-NC-SA 4.0",
    "quartz": "Tafjord et al., 2019, huggingface.co/datasets/allenai/quartz; CC BY 4.0",
    "ethics": "Hendrycks et al., 2020, huggingface.co/datasets/hendrycks/ethics; MIT",
    "csqa2": "Talmor et al., 2022, huggingface.co/datasets/tasksource/commonsense_qa_2.0; CC BY 4.0",
    "wikidata": f"Gurnee et al., 2023 (passages that end in a name, facts from Wikidata); {UNCONFIRMED}",
    "phrases": f"Gurnee et al., 2023 (passages that end in a phrase); {UNCONFIRMED}",
    "glue": f"Wang et al., 2018, huggingface.co/datasets/nyu-mll/glue; {UNCONFIRMED}",
    "ai-human": f"huggingface.co/datasets/andythetechnerd03/AI-human-text; {UNCONFIRMED}",
    "toxic-chat": "Lin et al., 2023, huggingface.co/datasets/lmsys/toxic-chat; CC BY-NC 4.0",
    "spam": f"kaggle.com/datasets/team-ai/spam-text-message-classification; {UNCONFIRMED}",
    "news": f"kaggle.com/datasets/tanishqdublish/text-classification-documentation; {UNCONFIRMED}",
    "cancer": f"kaggle.com/datasets/falgunipatel19/biomedical-text-publication-classification; {UNCONFIRMED}",
    "fake-news": f"kaggle.com/datasets/clmentbisaillon/fake-and-real-news-dataset; {UNCONFIRMED}",
    "medical": f"kaggle.com/datasets/chaitanyakck/medical-text; {UNCONFIRMED}",
    "emotion": f"kaggle.com/datasets/pashupatigupta/emotion-detection-from-text; {UNCONFIRMED}",
    "tickets": f"kaggle.com/datasets/adisongoh/it-service-ticket-classification-dataset; {UNCONFIRMED}",
    "clickbait": f"huggingface.co/datasets/rkotari/clickbait; {UNCONFIRMED}",
    "davidson": "Davidson et al., 2017, github.com/t-davidson/hate-speech-and-offensive-language; MIT",
    "gpt3": f"github.com/HarshOza36/Detection-Of-Machine-Generated-Text; {UNCONFIRMED}",
    "yelp": "huggingface.co/datasets/Yelp/yelp_review_full; Yelp's dataset licence",
    "movies": f"Pang and Lee, 2005, huggingface.co/datasets/cornell-movie-review-data/rotten_tomatoes; {UNCONFIRMED}",
    "saebench": f"Karvonen et al., 2025, github.com/adamkarvonen/SAEBench (from Amazon reviews, GitHub code, AG News); "
    f"{UNCONFIRMED}",
}


class Entry(NamedTuple):
    """One file of the wheel."""

    file: str
    """Name in the wheel, without .csv.zst; what follows its number is the name of the set."""
    about: str
    """What the label is, or what 1 means."""
    source: str
    """Key of `SOURCES`."""
    positive: str = "1"
    """The target that becomes 1, for a binary set."""
    kind: LabelKind = "binary"
    period: float | None = None

    @property
    def name(self) -> str:
        return self.file.partition("_")[2].replace(" ", "_")


def _phrases(first: int, *phrases: str) -> tuple[Entry, ...]:
    return tuple(
        Entry(f"{number}_{phrase}", f"the text ends in '{phrase.replace('-', ' ')}'", "phrases", "bigram")
        for number, phrase in enumerate(phrases, first)
    )


def _numbers(source: str, *named: tuple[str, str]) -> tuple[Entry, ...]:
    return tuple(Entry(file, about, source, kind="continuous") for file, about in named)


ENTRIES = (
    *_numbers(
        "world-models",
        ("2_hist_fig_birthyear", "year in which the named person was born"),
        ("3_hist_fig_deathyear", "year in which the named person died"),
        ("4_hist_fig_age", "age that the named person reached"),
        ("8_nyc_lat", "latitude of the named place in New York City"),
        ("9_nyc_long", "longitude of the named place in New York City"),
        ("11_us_lat", "latitude of the named place in the United States"),
        ("12_us_long", "longitude of the named place in the United States"),
        ("15_us_population", "population of the named place in the United States"),
        ("18_world_latitude", "latitude of the named place"),
        ("20_world_pageviews", "page views of the named place on Wikipedia"),
        ("25_headline_year", "year of the headline"),
        ("28_art_year", "year in which the named book, song or film appeared"),
        ("29_art_pageviews", "page views of the named book, song or film on Wikipedia"),
        ("30_book_length", "pages of the named book"),
    ),
    Entry("19_world_longitude", "longitude of the named place", "world-models", kind="cyclic", period=360.0),
    Entry("5_hist_fig_ismale", "the named person is a man", "world-models"),
    Entry("6_hist_fig_isamerican", "the named person is American", "world-models"),
    Entry("7_hist_fig_ispolitician", "the named person is a politician", "world-models"),
    Entry("21_headline_istrump", "the headline is about Trump", "world-models", "True"),
    Entry("22_headline_isobama", "the headline is about Obama", "world-models", "True"),
    Entry("23_headline_ischina", "the headline is about China", "world-models", "True"),
    Entry("24_headline_isiran", "the headline is about Iran", "world-models", "True"),
    Entry("26_headline_isfrontpage", "the headline was on the front page", "world-models"),
    Entry("36_sciq_tf", "the answer to the science question is right", "sciq"),
    *_numbers(
        "sae-probes",
        ("39_arith_infix", "value of the expression, e.g. (7*(4-3))"),
        ("40_arith_rpn", "value of the expression in reverse Polish notation"),
        ("109_ball_ws", "win shares of the named basketball player"),
    ),
    Entry("41_truthqa_tf", "the answer is true", "truthfulqa", "correct"),
    Entry("42_temp_sense", "the answer makes sense in time", "mctaco", "yes"),
    Entry("44_phys_tf", "the second of two solutions is right", "piqa"),
    Entry("47_reasoning_tf", "the first of two answers is right", "quartz", "A"),
    Entry("48_cm_correct", "the act is wrong", "ethics"),
    Entry("49_cm_isshort", "the text is short", "ethics", "True"),
    Entry("50_deon_isvalid", "the excuse is valid", "ethics"),
    Entry("51_just_is", "the reason is just", "ethics"),
    Entry("52_virtue_is", "the named trait fits the act", "ethics"),
    Entry("54_cs_tf", "the statement is true", "csqa2", "yes"),
    Entry("56_wikidatasex_or_gender", "the text ends in the name of a woman", "wikidata", "female"),
    Entry("57_wikidatais_alive", "the text ends in the name of a person alive", "wikidata", "True"),
    Entry("58_wikidatapolitical_party", "the text ends in the name of a Democrat", "wikidata", "Democratic Party"),
    Entry("59_wikidata_occupation_isjournalist", "the text ends in the name of a journalist", "wikidata"),
    Entry("60_wikidata_occupation_isathlete", "the text ends in the name of an athlete", "wikidata"),
    Entry("61_wikidata_occupation_isactor", "the text ends in the name of an actor", "wikidata"),
    Entry("62_wikidata_occupation_ispolitician", "the text ends in the name of a politician", "wikidata"),
    Entry("63_wikidata_occupation_issinger", "the text ends in the name of a singer", "wikidata"),
    Entry("64_wikidata_occupation_isresearcher", "the text ends in the name of a researcher", "wikidata"),
    *_phrases(
        65,
        *("high-school", "living-room", "social-security", "credit-card", "blood-pressure", "prime-factors"),
        *("social-media", "gene-expression", "control-group", "magnetic-field", "cell-lines", "trial-court"),
        *("second-derivative", "north-america", "human-rights", "side-effects", "public-health"),
        *("federal-government", "third-party", "clinical-trials", "mental-health"),
    ),
    Entry("87_glue_cola", "the sentence is grammatical", "glue"),
    Entry("89_glue_mrpc", "the sentences mean the same", "glue"),
    Entry("90_glue_qnli", "the sentence does not answer the question", "glue"),
    Entry("91_glue_qqp", "the questions are the same", "glue"),
    Entry("92_glue_sst2", "the phrase from a review is positive", "glue"),
    *_numbers("glue", ("93_glue_stsb", "how similar the sentences are, from 0 to 5")),
    Entry("94_ai_gen", "the essay was generated", "ai-human"),
    Entry("95_toxic_is", "the message is toxic", "toxic-chat"),
    Entry("96_spam_is", "the message is spam", "spam"),
    Entry("100_news_fake", "the article is real", "fake-news"),
    Entry("105_click_bait", "the headline is clickbait", "clickbait", "clickbait"),
    Entry("106_hate_hate", "the tweet is marked as hate speech", "davidson"),
    Entry("107_hate_offensive", "the tweet is offensive", "davidson"),
    Entry("110_aimade_humangpt3", "the text was generated", "gpt3"),
    *_numbers("yelp", ("111_yelp_data", "stars of the review")),
    Entry("113_movie_sent", "the review is positive", "movies"),
    Entry("114_nyc_borough_Manhattan", "the named place is in Manhattan", "world-models"),
    Entry("115_nyc_borough_Brooklyn", "the named place is in Brooklyn", "world-models"),
    Entry("116_nyc_borough_Bronx", "the named place is in the Bronx", "world-models"),
    Entry("117_us_state_FL", "the named place is in Florida", "world-models"),
    Entry("118_us_state_CA", "the named place is in California", "world-models"),
    Entry("119_us_state_TX", "the named place is in Texas", "world-models"),
    Entry("120_us_timezone_Chicago", "the named place has Central Time", "world-models"),
    Entry("121_us_timezone_New_York", "the named place has Eastern Time", "world-models"),
    Entry("122_us_timezone_Los_Angeles", "the named place has Pacific Time", "world-models"),
    Entry("123_world_country_United_Kingdom", "the named place is in the United Kingdom", "world-models"),
    Entry("124_world_country_United_States", "the named place is in the United States", "world-models"),
    Entry("125_world_country_Italy", "the named place is in Italy", "world-models"),
    Entry("126_art_type_book", "the title is that of a book", "world-models"),
    Entry("127_art_type_song", "the title is that of a song", "world-models"),
    Entry("128_art_type_movie", "the title is that of a film", "world-models"),
    Entry("130_temp_cat_Frequency", "the question asks how often", "mctaco"),
    Entry("131_temp_cat_Typical Time", "the question asks when", "mctaco"),
    Entry("132_temp_cat_Event Ordering", "the question asks what came before or after", "mctaco"),
    Entry("133_context_type_Causality", "the question asks for a cause", "quail"),
    Entry("134_context_type_Belief_states", "the question asks what somebody believes", "quail"),
    Entry("135_context_type_Event_duration", "the question asks how long", "quail"),
    Entry("136_glue_mnli_entailment", "the second sentence follows from the first", "glue"),
    Entry("137_glue_mnli_neutral", "the second sentence neither follows nor contradicts", "glue"),
    Entry("138_glue_mnli_contradiction", "the second sentence contradicts the first", "glue"),
    Entry("139_news_class_Politics", "the news is about politics", "news"),
    Entry("140_news_class_Technology", "the news is about technology", "news"),
    Entry("141_news_class_Entertainment", "the news is about entertainment", "news"),
    Entry("142_cancer_cat_Thyroid_Cancer", "the paper is about thyroid cancer", "cancer"),
    Entry("143_cancer_cat_Lung_Cancer", "the paper is about lung cancer", "cancer"),
    Entry("144_cancer_cat_Colon_Cancer", "the paper is about colon cancer", "cancer"),
    Entry("145_disease_class_digestive system diseases", "the abstract is about digestive diseases", "medical"),
    Entry("146_disease_class_cardiovascular diseases", "the abstract is about cardiovascular diseases", "medical"),
    Entry("147_disease_class_nervous system diseases", "the abstract is about nervous diseases", "medical"),
    Entry("148_twt_emotion_worry", "the tweet is worried", "emotion"),
    Entry("149_twt_emotion_happiness", "the tweet is happy", "emotion"),
    Entry("150_twt_emotion_sadness", "the tweet is sad", "emotion"),
    Entry("151_it_tick_HR Support", "the ticket is for human resources", "tickets"),
    Entry("152_it_tick_Hardware", "the ticket is about hardware", "tickets"),
    Entry("153_it_tick_Administrative rights", "the ticket is about rights", "tickets"),
    Entry("154_athlete_sport_football", "the named athlete plays football", "sae-probes"),
    Entry("155_athlete_sport_basketball", "the named athlete plays basketball", "sae-probes"),
    Entry("156_athlete_sport_baseball", "the named athlete plays baseball", "sae-probes"),
    Entry("157_amazon_5star", "the review has five stars", "saebench"),
    Entry("158_code_C", "the code is C", "saebench"),
    Entry("159_code_Python", "the code is Python", "saebench"),
    Entry("160_code_HTML", "the code is HTML", "saebench"),
    Entry("161_agnews_0", "AG News class 0, against code and other text", "saebench"),
    Entry("162_agnews_1", "AG News class 1, against code and other text", "saebench"),
    Entry("163_agnews_2", "AG News class 2, against code and other text", "saebench"),
)
IDENTICAL = {"16_us_density": "15_us_population", "38_arith_difficulty": "37_arith_mc", "112_amzn_rev": "111_yelp_data"}
"""Files that hold the same bytes as another, which is kept: its targets are what its name says."""
SEVERAL_CLASSES = (
    *("10_nyc_borough", "13_us_state", "14_us_timezone", "17_world_country", "27_art_type", "37_arith_mc"),
    *("43_temp_cat", "45_context_ans", "46_context_type", "55_open_qa", "86_social_iqa", "88_glue_mnli"),
    *("97_news_class", "98_cancer_cat", "99_sci_cat", "101_disease_class", "102_twt_emotion", "103_it_tick"),
    "108_athlete_sport",
)
"""Files with more than two classes; most have sets of one class against the others."""
MEANINGLESS = ("129_arith_mc_A",)
"""The wheel's own table says of it that it makes no sense."""
TOPICS = ("People", "Biology and health sciences", "Geography", "Physical sciences")
"""Topics of `wiki-leads` with enough held-out documents."""
_TOPIC_SOURCE = f"{WIKI_LEADS.attribution}; {WIKI_LEADS.licence}"
_BY_NAME = {entry.name: entry for entry in ENTRIES}
_TOPIC_SETS = {f"wiki_{topic.split()[0].lower()}": topic for topic in TOPICS}
DEFAULT_SETS = (
    # people, places, works
    *("hist_fig_ismale", "hist_fig_isamerican", "hist_fig_ispolitician", "athlete_sport_basketball"),
    *("wikidata_occupation_isathlete", "us_timezone_Los_Angeles", "world_country_United_Kingdom"),
    *("nyc_borough_Manhattan", "art_type_book", "art_type_song"),
    # topics
    *("news_class_Politics", "news_class_Technology", "it_tick_HR_Support"),
    *("wiki_people", "wiki_biology", "wiki_geography"),
    # feeling, tone
    *("glue_sst2", "twt_emotion_happiness", "hate_offensive", "toxic_is", "headline_isfrontpage"),
    # grammar, truth, norms
    *("glue_cola", "glue_qqp", "truthqa_tf", "sciq_tf", "just_is", "deon_isvalid"),
    # years, places on a map, circles
    *("hist_fig_birthyear", "art_year", "headline_year", "years", "us_long", "world_latitude", "world_longitude"),
    *("weekdays", "weekdays_known", "months", "months_known", "days_of_month", "hours"),
)
"""Probed if none is named: a choice over topics, short texts first. Words alone solve two of them (wiki_people,
wiki_geography), which are therefore left out of the means."""


def set_names() -> list[str]:
    """Names of all packaged sets."""
    return [*_BY_NAME, *_TOPIC_SETS, *SENTENCE_SETS]


def described_sets() -> list[dict[str, Any]]:
    """Name, kind, meaning and source of every packaged set, and whether it is probed by default."""
    facts: list[tuple[str, str, str, str]] = [
        *((each.name, each.kind, each.about, SOURCES[each.source]) for each in ENTRIES),
        *((name, "binary", _about_topic(topic), _TOPIC_SOURCE) for name, topic in _TOPIC_SETS.items()),
        *((each.name, each.kind, each.about, each.source) for each in (make() for make in SENTENCE_SETS.values())),
    ]
    names = ("name", "kind", "about", "source")
    return [dict(zip(names, each, strict=True)) | {"default": each[0] in DEFAULT_SETS} for each in facts]


def load_sets(names: Sequence[str]) -> list[LabelledSet]:
    """Load packaged sets by name.

    Args:
        names: Any of `set_names()`.

    Returns:
        The sets, with all their rows.
    """
    known = set_names()
    for name in names:
        if name not in known:
            raise ValueError(f"no set '{name}'{_similar(name, known)}; quadric probe --list names all {len(known)}")
    return [_load(name) for name in names]


def _similar(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _load(name: str) -> LabelledSet:
    if name in SENTENCE_SETS:
        return SENTENCE_SETS[name]()
    return _topic(name) if name in _TOPIC_SETS else _from_wheel(_BY_NAME[name])


def _from_wheel(entry: Entry) -> LabelledSet:
    rows = list(csv.DictReader(io.StringIO(read_csv(entry.file), newline="")))
    given = [(row["prompt"], row["target"]) for row in rows if row["prompt"].strip() and row["target"].strip()]
    is_binary = entry.kind == "binary"
    return LabelledSet(
        name=entry.name,
        kind=entry.kind,
        texts=[text for text, _ in given],
        labels=[float(target == entry.positive) if is_binary else float(target) for _, target in given],
        period=entry.period,
        about=entry.about,
        source=f"{SOURCES[entry.source]}; {SAE_PROBES.package}=={SAE_PROBES.version}, {entry.file}.csv",
    )


def read_csv(file: str) -> str:
    """One CSV file of the wheel, decompressed."""
    import pyarrow

    compressed = pyarrow.BufferReader(read_member(SAE_PROBES, f"{FOLDER}/{file}.csv.zst"))
    content: bytes = pyarrow.CompressedInputStream(compressed, "zstd").read()
    return content.decode()


def _topic(name: str) -> LabelledSet:
    """One topic against all others, in documents that no dictionary of the default split was trained on."""
    documents = list(_held_out_documents())
    topic = _TOPIC_SETS[name]
    return LabelledSet(
        name=name,
        kind="binary",
        texts=[text for text, _ in documents],
        labels=[float(own == topic) for _, own in documents],
        about=_about_topic(topic),
        source=_TOPIC_SOURCE,
    )


def _about_topic(topic: str) -> str:
    return f"the article is about {topic.lower()}"


def _held_out_documents() -> Iterator[tuple[str, str]]:
    for document in ordered_documents(CorpusConfig(source=WIKI_LEADS.name, split="held_out", seed=None)):
        if document.topic not in (None, "Uncategorized"):
            yield document.text, str(document.topic)
