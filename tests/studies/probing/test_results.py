"""Means, paired differences and what counts as won."""

from dataclasses import replace
from statistics import stdev

import pytest
from scipy.stats import t

from quadric.studies.probing.report import report_of, short_tables, verdicts
from quadric.studies.probing.results import ProbeRow, Probing, SetFacts, set_rows, split_interval, summary_of

SCORES = {
    # set: (ours, linear part, topk), each for three seeds
    "won": ((0.90, 0.91, 0.92), (0.70, 0.71, 0.72), (0.90, 0.80, 0.95)),
    "lost": ((0.60, 0.61, 0.62), (0.80, 0.81, 0.82), (0.60, 0.70, 0.55)),
    "trivial": ((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
FAMILIES = (("ours", "latents"), ("ours", "linear part"), ("topk", "latents"))


def facts(name: str, words: float | None) -> SetFacts:
    return SetFacts(name=name, kind="binary", n_rows=90, n_tokens=300, about="", source="", words_auc=words)


def probing() -> Probing:
    rows = [
        ProbeRow(set=name, pooling="last", dictionary=owner, family=family, count=1, seed=seed, auc=auc, accuracy=auc)
        for name, scores in SCORES.items()
        for (owner, family), own in zip(FAMILIES, scores, strict=True)
        for seed, auc in enumerate(own)
    ]
    sets = tuple(facts(name, 0.99 if name == "trivial" else 0.6) for name in SCORES)
    settings = {"dictionaries": {}, "hook_point": "x", "seeds": 3, "rows": 90, "tokens": 9, "poolings": ["last"]}
    return Probing(settings=settings, sets=sets, rows=tuple(rows), regressions=())


def test_sets_that_words_solve_count_in_no_mean() -> None:
    summary = summary_of(probing())
    ours = next(each for each in summary.auc if each.label == "ours: latents")
    assert ours.n_sets == 2
    assert ours.value.mean == pytest.approx((0.91 + 0.61) / 2)


def test_differences_are_paired_and_ties_are_what_splits_cannot_tell_apart() -> None:
    linear, topk = summary_of(probing()).auc_contrasts
    assert (linear.label, linear.against) == ("ours: latents", "ours: linear part")
    assert linear.difference.mean == pytest.approx(0)
    assert (linear.won, linear.tied, linear.lost) == (1, 0, 1)
    assert (topk.against, topk.won, topk.tied, topk.lost) == ("topk: latents", 0, 2, 0)


def test_the_interval_over_splits_is_wider_than_that_of_independent_values() -> None:
    values = [0.7, 0.75, 0.8, 0.72]
    found = split_interval(values, 0.5)
    half = t.ppf(0.975, 3) * stdev(values) * (1 / 4 + 0.5) ** 0.5
    assert found.high - found.mean == pytest.approx(half)
    assert found.mean - found.low == pytest.approx(half)
    assert split_interval([0.7], 0.5) == (0.7, 0.7, 0.7)


def test_tables_say_who_won_and_which_sets_were_left_out() -> None:
    text = report_of(probing())
    assert "| ours: linear part | +0.000 ± 2.541; 1/0/1 |" in text
    assert "0.990 (left out)" in text
    assert "mean over 2 binary sets" in text
    brief = short_tables(probing())
    assert brief[1].rows[0] == ["ours: linear part", "+0.000 1/0/1"]


def test_every_set_has_its_intervals_over_splits() -> None:
    row = next(each for each in set_rows(probing()) if (each["set"], each["features"]) == ("won", "ours: latents"))
    expected = split_interval(SCORES["won"][0], 0.5)
    assert (row["auc"], row["auc_low"], row["auc_high"]) == pytest.approx(tuple(expected))
    assert row["accuracy"] == pytest.approx(0.91)
    assert len(set_rows(probing())) == 9


def test_everything_goes_to_json() -> None:
    found = probing().as_json()
    assert found["sets"][2]["trivial"]
    assert found["summary"]["auc_contrasts"][0]["won"] == 1
    assert found["probes"][0]["count"] == 1


def test_sentences_say_what_the_intervals_over_sets_say() -> None:
    (sentence,) = verdicts(probing())
    assert sentence.startswith("AUC of ours: latents, at the last token: higher than none; lower than none;")
    better = [replace(row, auc=row.auc + 0.5 * (row.label == "ours: latents")) for row in probing().rows]
    (sentence,) = verdicts(replace(probing(), rows=tuple(better)))
    # Against the linear part the two sets differ by 0.4, which leaves the mean open; against TopK they agree.
    assert "higher than topk: latents (1); lower than none" in sentence
    assert f"- {sentence}" in report_of(replace(probing(), rows=tuple(better)))
