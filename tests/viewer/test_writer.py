"""A site on disk is whole, small enough to host, and says what the schema objects said."""

import errno
import gzip
import json
import math
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from quadric._io.files import DiskFullError
from quadric._io.locks import LOCK, BusyError
from quadric.viewer import writer
from quadric.viewer.encoding import unpack
from quadric.viewer.schema import SCHEMA_VERSION, SHARD_TOKENS
from quadric.viewer.writer import HostingLimits, check_viewer_built, is_site, write_site
from tests.viewer.synthetic import synthetic_dictionary, synthetic_text


@pytest.fixture
def static(tmp_path):
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "build.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def text():
    return synthetic_text(70_000)


def write(folder, static, text, *, n_latents=7, **settings):
    dictionary = synthetic_dictionary(text, n_latents=n_latents, n_points=50)
    return write_site(folder, title="t", texts=[text], dictionaries=[dictionary], static=static, **settings)


def whole_numbers(planes):
    return sum(plane.astype(np.int64) << (8 * index) for index, plane in enumerate(planes))


def signed(planes, scale):
    width = 8 * len(planes)
    numbers = whole_numbers(planes)
    numbers = np.where(numbers >= 1 << (width - 1), numbers - (1 << width), numbers)
    return scale * numbers / ((1 << (width - 1)) - 1)


def test_every_file_of_the_format_is_there_and_no_other(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    names = {
        path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*") if path.is_file()
    }
    latents = {f"data/composite/latents/{latent:05d}.st" for latent in range(7)}
    beside = {"index.st", "labels.json.gz", "clusters.json.gz", "patterns.json.gz", "tokens.st"}
    texts = {f"data/texts/synthetic/{name}.st" for name in ("vocabulary", "sequences", "00000", "00001")}
    ours = {"index.html", "data/site.json", *texts, *latents, *(f"data/composite/{name}" for name in beside)}
    assert names == {*ours, "quadric-files.json"}
    assert set(json.loads((tmp_path / "site/quadric-files.json").read_text())["files"]) == ours
    assert not list((tmp_path / "site").glob(".*"))


def test_a_latent_survives_up_to_the_stated_precision(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    record = next(iter(synthetic_dictionary(text, n_latents=7, n_points=50).latents))
    stored = unpack((tmp_path / "site/data/composite/latents/00000.st").read_bytes())
    np.testing.assert_array_equal(whole_numbers(stored["places"]), record.places)
    np.testing.assert_array_equal(whole_numbers(stored["tokens"]), record.tokens)
    np.testing.assert_array_equal(stored["context_tokens"], record.context_tokens)
    values = signed(stored["values"], stored["value_scale"][0])
    np.testing.assert_allclose(values, record.values, atol=np.abs(record.values).max() / 65_000)
    scales = stored["coordinate_scales"]
    for axis in range(8):
        fine = axis < 3
        planes = stored["coordinates_fine"][:, axis] if fine else stored["coordinates_coarse"][:, axis - 3]
        found = signed(planes, scales[axis])
        np.testing.assert_allclose(found, record.coordinates[:, axis], atol=scales[axis] / (65_000 if fine else 253))


def test_the_text_comes_back_from_its_shards(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    folder = tmp_path / "site/data/texts/synthetic"
    shards = [whole_numbers(unpack((folder / f"0000{i}.st").read_bytes())["token_ids"]) for i in (0, 1)]
    assert len(shards[0]) == SHARD_TOKENS
    np.testing.assert_array_equal(np.concatenate(shards), text.token_ids)
    vocabulary = unpack((folder / "vocabulary.st").read_bytes())
    ends = np.cumsum(whole_numbers(vocabulary["lengths"]))
    letters = vocabulary["bytes"].tobytes()
    assert [letters[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] == text.vocabulary
    sequences = unpack((folder / "sequences.st").read_bytes())
    starts = np.cumsum([0, *whole_numbers(sequences["sequence_lengths"])[:-1]])
    np.testing.assert_array_equal(starts, text.sequence_starts)
    document_starts = np.cumsum([0, *whole_numbers(sequences["document_lengths"])[:-1]])
    np.testing.assert_array_equal(document_starts, np.arange(0, 70_000, 700))


def test_the_token_search_lists_each_latent_under_the_tokens_of_its_points(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    index = unpack((tmp_path / "site/data/composite/tokens.st").read_bytes())
    starts = np.concatenate([[0], np.cumsum(whole_numbers(index["counts"]))])
    latents, shares = whole_numbers(index["latents"]), index["shares"]
    records = list(synthetic_dictionary(text, n_latents=7, n_points=50).latents)
    for token in range(len(text.vocabulary)):
        rows = slice(starts[token], starts[token + 1])
        assert list(shares[rows]) == sorted(shares[rows], reverse=True)
        for latent, share in zip(latents[rows], shares[rows], strict=True):
            energy = np.square(records[latent].values, dtype=np.float64)
            naive = energy[records[latent].tokens == token].sum() / energy.sum()
            assert share == round(255 * naive)
    assert all(latent in latents for latent in range(7))


def test_the_manifest_says_what_is_there(tmp_path, static, text):
    manifest = write(tmp_path / "site", static, text)
    stored = json.loads((tmp_path / "site/data/site.json").read_text())
    assert stored["schema_version"] == SCHEMA_VERSION
    assert stored["texts"][0]["n_shards"] == 2
    assert stored["dictionaries"][0]["provenance"]["hook_point"] == "layers.15"
    assert manifest.dictionaries[0].n_latents == 7
    assert is_site(tmp_path / "site")


def test_the_same_objects_give_the_same_bytes(tmp_path, static, text):
    for name in ("one", "two"):
        write(tmp_path / name, static, text)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_a_site_is_replaced_and_anything_else_refused(tmp_path, static, text):
    write(tmp_path / "site", static, text, n_latents=9)
    write(tmp_path / "site", static, text, n_latents=3)
    assert len(list((tmp_path / "site/data/composite/latents").iterdir())) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="not a site made by Quadric"):
        write(tmp_path / "mine", static, text)
    assert (tmp_path / "mine/thesis.txt").read_text() == "years of work"


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_that_are_not_the_sites_survive_its_replacement(tmp_path, static, text):
    folder = tmp_path / "site"
    write(folder, static, text, n_latents=9)
    mine = {".git/HEAD": b"ref: refs/heads/pages", "CNAME": b"latents.example", ".nojekyll": b"", "notes/a.txt": b"a"}
    for name, content in mine.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    write(folder, static, text, n_latents=3)
    assert mine.items() <= files(folder).items()
    write(tmp_path / "other", static, text, n_latents=3)
    assert files(folder) == files(tmp_path / "other") | mine


FOREIGN = [
    *("data/notes.txt", "data/composite/thesis.pdf", "assets/photo.png", "data/mine.json"),
    # with the names that an export's own files could have
    *("assets/mine.css", "assets/notes.txt", "data/survey/answers.json", "data/composite/latents/99999.st"),
]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_inside_the_sites_folders_is_not_deleted(tmp_path, static, text, name):
    folder = tmp_path / "site"
    write(folder, static, text)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = files(folder)
    with pytest.raises(FileExistsError, match=f"{name}' does not belong to the site .*; move it, or name another"):
        write(folder, static, text, n_latents=3)
    assert files(folder) == before


def test_a_page_of_the_users_is_not_replaced_by_one_of_the_viewer(tmp_path, static, text):
    folder = tmp_path / "site"
    write(folder, static, text)
    (folder / "about.html").write_text("mine")
    (static / "about.html").write_text("a later viewer has such a page")
    with pytest.raises(FileExistsError, match=r"about\.html' does not belong to the site"):
        write(folder, static, text, n_latents=3)
    assert (folder / "about.html").read_text() == "mine"


def test_a_site_without_a_record_of_its_files_is_not_replaced(tmp_path, static, text):
    folder = tmp_path / "site"
    write(folder, static, text)
    (folder / "quadric-files.json").unlink()
    before = files(folder)
    with pytest.raises(FileExistsError, match="an earlier Quadric, which kept no record of its files; delete it if"):
        write(folder, static, text, n_latents=3)
    assert files(folder) == before


def test_a_link_is_followed(tmp_path, static, text):
    (tmp_path / "link").symlink_to(tmp_path / "disk")  # which does not exist yet
    for n_latents in (9, 3):
        write(tmp_path / "link", static, text, n_latents=n_latents)
        assert (tmp_path / "link").is_symlink()
        assert len(list((tmp_path / "disk/data/composite/latents").iterdir())) == n_latents


@pytest.mark.parametrize("after", range(8))
def test_an_export_killed_while_it_takes_its_place_is_undone_by_the_next(tmp_path, static, text, monkeypatch, after):
    """Killed after each of its renames in turn; then the former site is whole again, or the new one is."""
    (static / "assets").mkdir()
    (static / "assets/app.js").write_text("old")
    folder = tmp_path / "site"
    write(folder, static, text, n_latents=9)
    former = files(folder)
    (static / "assets/app.js").write_text("new")
    renames = 0
    rename = Path.rename

    def rename_or_die(path, target):
        nonlocal renames
        if renames == after:
            raise Killed
        renames += 1
        return rename(path, target)

    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_or_die)
        patch.setattr(writer.shutil, "rmtree", lambda *_, **__: None)  # a killed process cleans nothing up
        with suppress(Killed):
            write(folder, static, text, n_latents=3)
    writer.check_replaceable(folder)
    if (folder / writer.FORMER).exists():
        writer._recover(folder)
        assert files(folder) == former
    write(folder, static, text, n_latents=3)
    write(tmp_path / "other", static, text, n_latents=3)
    assert files(folder) == files(tmp_path / "other")


def test_what_a_killed_export_left_does_not_stop_the_next(tmp_path, static, text):
    folder = tmp_path / "site"
    (folder / writer.UNFINISHED / "data").mkdir(parents=True)
    (folder / LOCK).touch()
    write(folder, static, text)
    assert not list(folder.glob(".*"))


def test_two_exports_at_once_are_refused(tmp_path, static, text):
    dictionary = synthetic_dictionary(text, n_latents=7, n_points=50)
    refused = []

    def second():
        try:
            write(tmp_path / "site", static, text)
        except BusyError as busy:
            refused.append(str(busy))

    def latents():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        yield from dictionary.latents

    write_site(
        tmp_path / "site", title="t", texts=[text], dictionaries=[replace(dictionary, latents=latents())], static=static
    )
    assert len(refused) == 1
    assert "is being written by quadric site" in refused[0]


def test_a_full_disk_names_the_folder_and_keeps_the_former_site(tmp_path, static, text, monkeypatch):
    write(tmp_path / "site", static, text)
    before = files(tmp_path / "site")

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DiskFullError, match=r"no room for site in .*free some space"):
        write(tmp_path / "site", static, text, n_latents=3)
    monkeypatch.undo()
    assert files(tmp_path / "site") == before


def test_a_failure_half_way_leaves_the_former_site(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    dictionary = synthetic_dictionary(text, n_latents=7, n_points=50)

    def breaking():
        yield next(iter(dictionary.latents))
        raise ValueError("the disk of latents is gone")

    with pytest.raises(ValueError, match="disk of latents"):
        write_site(
            tmp_path / "site",
            title="t",
            texts=[text],
            dictionaries=[replace(dictionary, latents=breaking())],
            static=static,
        )
    assert len(list((tmp_path / "site/data/composite/latents").iterdir())) == 7
    assert not list((tmp_path / "site").glob(".*"))


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (HostingLimits(files=30), "would have 49 files"),
        (HostingLimits(file_bytes=1_000), "bytes; hosts take 1,000 per file"),
        (HostingLimits(total_bytes=30_000), "would exceed 30,000 bytes"),
    ],
)
def test_what_no_host_takes_is_refused_with_the_remedy(tmp_path, static, text, limits, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        write(tmp_path / "site", static, text, limits=limits)
    assert "lift the hosting limits" in str(refused.value)
    assert not (tmp_path / "site").exists()
    write(tmp_path / "site", static, text, limits=None)


def changed(text, **changes):
    dictionary = synthetic_dictionary(text, n_latents=3, n_points=20)
    return replace(dictionary, latents=[replace(record, **changes) for record in dictionary.latents])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rest": math.nan}, "latent 0 of 'composite' has numbers in rest that are not finite"),
        ({"control": np.full((20, 3), np.nan, dtype=np.float32)}, "control that are not finite"),
    ],
)
def test_a_latent_that_cannot_be_drawn_is_refused_by_name(tmp_path, static, text, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        write_site(tmp_path / "site", title="t", texts=[text], dictionaries=[changed(text, **changes)], static=static)


def test_clusters_are_stored_by_latent_and_by_point(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    dictionary = synthetic_dictionary(text, n_latents=7, n_points=50)
    record = list(dictionary.latents)[3]
    assert (record.clusters >= 0).any()
    stored = unpack((tmp_path / "site/data/composite/latents/00003.st").read_bytes())
    np.testing.assert_array_equal(whole_numbers(stored["clusters"]) - 1, record.clusters)
    found = json.loads(gzip.decompress((tmp_path / "site/data/composite/clusters.json.gz").read_bytes()))
    assert found["3"] == json.loads(json.dumps(asdict(dictionary.clusters[3])))
    assert set(found) == {str(latent) for latent in dictionary.clusters}


def test_patterns_are_stored_by_latent(tmp_path, static, text):
    write(tmp_path / "site", static, text)
    dictionary = synthetic_dictionary(text, n_latents=7, n_points=50)
    found = json.loads(gzip.decompress((tmp_path / "site/data/composite/patterns.json.gz").read_bytes()))
    assert found == {
        str(latent): json.loads(json.dumps([asdict(each) for each in tests]))
        for latent, tests in dictionary.patterns.items()
    }
    stored = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))["dictionaries"][0]["patterns"]
    assert stored == json.loads(json.dumps(asdict(dictionary.entry.patterns)))


@pytest.mark.parametrize(("name", "complaint"), [("../up", "cannot be a folder"), ("texts", "cannot be a folder")])
def test_a_name_that_is_no_folder_is_refused(tmp_path, static, text, name, complaint):
    dictionary = synthetic_dictionary(text, name=name, n_latents=1, n_points=20)
    with pytest.raises(ValueError, match=complaint):
        write_site(tmp_path / "site", title="t", texts=[text], dictionaries=[dictionary], static=static)


def test_latents_are_streamed_one_by_one(tmp_path, static, text):
    """Each latent is on disk before the next is asked for."""
    dictionary = synthetic_dictionary(text, n_latents=4, n_points=20)
    seen = []

    def watched():
        for record in dictionary.latents:
            seen.append(len(list(tmp_path.glob("site/.quadric-site-unfinished/data/composite/latents/*"))))
            yield record

    write_site(
        tmp_path / "site", title="t", texts=[text], dictionaries=[replace(dictionary, latents=watched())], static=static
    )
    assert seen == [0, 1, 2, 3]


def test_an_unbuilt_viewer_is_named_with_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match="the viewer is not built"):
        check_viewer_built(tmp_path)
