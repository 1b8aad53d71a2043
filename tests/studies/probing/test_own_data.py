"""A user's own file: what it may look like, and one line for each mistake."""

from pathlib import Path

import pytest

from quadric.studies.probing.own_data import read_labelled


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
