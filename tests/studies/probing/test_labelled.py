"""Labelled sets: what they accept, how they are read from files, how they are sampled and split."""

from pathlib import Path

import numpy as np
import pytest
import torch

from quadric.studies.probing.labelled import LabelledSet, check_enough, class_split, folds, read_labelled, sample


def texts(labels: list[int] | list[float], **changes: object) -> LabelledSet:
    given = {"name": "set", "kind": "binary", "texts": [f"text {n}" for n in range(len(labels))], "labels": labels}
    return LabelledSet(**given | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": None}, "either texts or vectors"),
        ({"vectors": torch.zeros(2, 3)}, "either texts or vectors"),
        ({"labels": [0.0]}, "2 rows and 1 labels"),
        ({"labels": [0.0, 2.0]}, "labels other than 0 and 1"),
        ({"labels": [0.0, float("nan")]}, r"not finite \(row 1\)"),
        ({"kind": "cyclic"}, "a cycle needs a period"),
        ({"kind": "cyclic", "period": -1.0}, "give a positive length"),
        ({"period": 7.0}, "a cycle needs a period"),
    ],
)
def test_sets_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        texts(changes.pop("labels", [0.0, 1.0]), **{"texts": ["a", "b"]} | changes)  # type: ignore[arg-type]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="10 usable rows; give at least 24"):
        check_enough(texts([0, 1] * 5))
    with pytest.raises(ValueError, match="3 rows of class 1 and 37 of class 0"):
        check_enough(texts([1] * 3 + [0] * 37))
    with pytest.raises(ValueError, match="are equal"):
        check_enough(texts([5] * 30, kind="continuous"))


def test_a_sample_is_balanced_repeatable_and_keeps_no_text_twice() -> None:
    words = ["same"] * 3 + ["both", "both"] + [f"text {n}" for n in range(95)]
    labels = [1.0] * 3 + [0.0, 1.0] + [float(n % 3 == 0) for n in range(95)]
    found = sample(texts(labels, texts=words), 40)
    assert len(found) == 40
    assert sum(found.labels) == 20
    assert len(set(found.texts or ())) == 40
    assert "both" not in (sample(texts(labels, texts=words), 100).texts or ())  # its two rows contradict each other
    assert found.texts == sample(texts(labels, texts=words), 40).texts


def test_a_cyclic_label_becomes_cosine_and_sine() -> None:
    targets = texts([0, 1, 2, 3], kind="cyclic", period=4.0).targets()
    np.testing.assert_allclose(targets, [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-12)


def test_rows_keep_texts_labels_and_groups_together() -> None:
    found = texts([0, 1, 0, 1], groups=[5, 6, 7, 8]).rows(np.array([2, 1]))
    assert (found.texts, found.labels, found.groups) == (["text 2", "text 1"], [0, 1], [7, 6])


def test_a_split_tests_a_third_of_each_class_on_rows_it_does_not_train_on() -> None:
    labelled = texts([0, 1] * 30)
    split = class_split(labelled, 0)
    assert set(split.train) | set(split.test) == set(range(60))
    assert not set(split.train) & set(split.test)
    assert np.asarray(labelled.labels)[split.test].tolist().count(1) == 10
    assert split.is_train(60).sum() == 40
    assert (class_split(labelled, 1).test != split.test).any()


def test_groups_are_never_on_both_sides() -> None:
    groups = [n // 4 for n in range(60)]
    split = class_split(texts([0, 1] * 30, groups=groups), 0)
    assert not {groups[row] for row in split.train} & {groups[row] for row in split.test}
    for part in folds(groups, 60, 3):
        assert not {groups[row] for row in part.train} & {groups[row] for row in part.test}
    with pytest.raises(ValueError, match="2 groups of rows"):
        folds([0, 1] * 30, 60, 0)


@pytest.mark.parametrize("groups", [None, [n // 4 for n in range(60)]])
def test_folds_test_every_row_once(groups: list[int] | None) -> None:
    assert sorted(row for part in folds(groups, 60, 0) for row in part.test) == list(range(60))
    if groups is not None:
        assert [part.test.tolist() for part in folds(groups, 60, 0)] != [
            part.test.tolist() for part in folds(groups, 60, 1)
        ]


def written(folder: Path, content: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_two_words_are_classes_and_the_later_one_is_1(tmp_path: Path) -> None:
    found = read_labelled(written(tmp_path, 'text,label\n"good, really",yes\nbad,no\n'))
    assert (found.kind, found.labels, found.texts) == ("binary", [1, 0], ["good, really", "bad"])
    assert "'yes' and not 'no'" in found.about


def test_numbers_are_classes_lines_or_circles(tmp_path: Path) -> None:
    binary = read_labelled(written(tmp_path, "prompt,target\na,3\nb,7.0\nc,3.0\n"))
    assert (binary.kind, binary.labels) == ("binary", [0, 1, 0])
    path = written(tmp_path, "\ufeffreview,stars\na,1\nb,2\nc,-5e1\n")
    line = read_labelled(path, text_field="review", label_field="stars")
    assert (line.name, line.kind, line.labels) == ("own", "continuous", [1, 2, -50])
    circle = read_labelled(path, text_field="review", label_field="stars", period=360)
    assert (circle.kind, circle.period) == ("cyclic", 360)


def test_lines_of_json_work_the_same_way(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "a", "label": true}\n\n{"text": "b", "label": false}\n', "own.jsonl")
    assert read_labelled(path).labels == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.txt", "", "give a file that ends in .csv or .jsonl"),
        ("own.csv", "text,label\n", "has no rows"),
        (
            "own.csv",
            "words,label\na,1\n",
            "no column named text or prompt for the texts; .* --text-field: words, label",
        ),
        ("own.csv", "text,mark\na,1\n", "no column named label or target"),
        ("own.csv", "text,label\na,one\nb,two\nc,three\n", "3 different labels, and 'one' is not a number"),
        ("own.csv", "text,label\na,\n", "row 1 has no label"),
        ("own.csv", "text,label\na,nan\nb,1\nc,2\n", "not finite"),
        ("own.csv", b"text,label\n\xff\xfe,1\n", "not UTF-8"),
        ("own.jsonl", "{oops\n", "line 1 is not JSON"),
        ("own.jsonl", "[1]\n", "line 1 is not a JSON object"),
        ("own.jsonl", '{"text": 3, "label": 1}\n', "has no text in 'text'"),
        ("own.jsonl", '{"text": "a", "label": [1]}\n', "has no label in 'label'"),
    ],
)
def test_mistakes_name_the_place_and_the_remedy(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_labelled(written(tmp_path, content, name))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no file 'nowhere\.csv'"):
        read_labelled("nowhere.csv")
