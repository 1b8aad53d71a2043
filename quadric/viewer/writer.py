"""Write schema objects as a folder of static files, one latent at a time."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from quadric._io.files import name_disk_errors, read_json, sync_to_disk
from quadric._io.locks import entries, only_writer
from quadric._io.progress import Progress, no_progress
from quadric.version import __version__
from quadric.viewer.checking import (
    HostingLimits,
    Tally,
    check_dictionary,
    check_file_count,
    check_latent,
    check_names,
    shard_count,
)
from quadric.viewer.encoding import TokenSearch, latent_tensors, pack, planes
from quadric.viewer.schema import (
    FORMAT,
    SCHEMA_VERSION,
    SHARD_TOKENS,
    LatentColumns,
    SiteComparison,
    SiteDictionary,
    SiteManifest,
    SiteText,
    TextEntry,
)

MANIFEST = "data/site.json"
STATIC = Path(__file__).parent / "static"
UNFINISHED, FORMER = ".quadric-site-unfinished", ".quadric-site-former"
"""Folders in the site's folder while it is being replaced; a killed export leaves them."""
OWN_FOLDERS = ("assets", "data")
OWN_FILE = re.compile(
    r"assets/[^/]+\.(?:css|js|svg|txt|woff2)|data/site\.json|data/[^/]+/(?:[^/]+/)?[^/]+\.(?:st|json|json\.gz)"
)
"""Files that an export writes into its own folders."""


def write_site(
    folder: Path,
    *,
    title: str,
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    comparisons: Sequence[SiteComparison] = (),
    limits: HostingLimits | None = HostingLimits(),  # noqa: B008  (frozen)
    static: Path = STATIC,
    on_progress: Progress = no_progress,
) -> SiteManifest:
    """Write a whole site or nothing: files go to a hidden folder in `folder` and take their places at the end.

    An existing site is replaced, and files in its folder that do not belong to it (.git, CNAME) are left alone; any
    other folder that is not empty is refused. `limits=None` is for a site that stays on this machine.
    """
    check_names(texts, dictionaries)
    check_file_count(texts, dictionaries, limits, len(comparisons))
    for dictionary in dictionaries:
        check_dictionary(dictionary)
    check_replaceable(folder)
    check_viewer_built(static)
    with only_writer(folder, "quadric site"), name_disk_errors(folder):
        _recover(folder)
        unfinished = folder / UNFINISHED
        try:
            manifest = _write(unfinished, title, texts, dictionaries, comparisons, Tally(limits), static, on_progress)
            _take_place(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return manifest


def is_site(folder: Path) -> bool:
    """Whether the folder holds a site, of any schema version."""
    try:
        return bool(read_json(folder / MANIFEST, "export again").get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def check_replaceable(folder: Path) -> None:
    """Refuse to overwrite anything but a site, what a killed export left, or an empty folder."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file; name a folder for the site")
    names = {path.name for path in entries(folder)}
    if names - {UNFINISHED} and FORMER not in names and not is_site(folder):
        raise FileExistsError(f"'{folder}' is not empty and not a site made by Quadric; name another folder")
    if foreign := _foreign_file(folder):
        raise FileExistsError(f"'{foreign}' does not belong to the site in '{folder}'; move it, or name another folder")


def _foreign_file(folder: Path) -> Path | None:
    """A file in the site's own subfolders that no export wrote, which replacing them would delete."""
    for top in OWN_FOLDERS:
        for path in sorted((folder / top).rglob("*")):
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or (path.is_file() and not OWN_FILE.fullmatch(inside)):
                return path
    return None


def check_viewer_built(static: Path = STATIC) -> None:
    """Refuse to write or serve a site without the files of the viewer."""
    if not (static / "index.html").is_file():
        raise FileNotFoundError(
            f"the viewer is not built: no index.html in '{static}'; in a clone run make, or reinstall quadric where "
            "the npm registry can be reached"
        )


def _write(
    folder: Path,
    title: str,
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    comparisons: Sequence[SiteComparison],
    tally: Tally,
    static: Path,
    on_progress: Progress,
) -> SiteManifest:
    # Not shutil.copytree, whose error of a full disk is a list of texts.
    for file in sorted(path for path in static.rglob("*") if path.is_file()):
        if file.name != "build.json" and file.stem != "notebook":
            _put(folder, file.relative_to(static).as_posix(), file.read_bytes(), tally)
    by_name = {text.name: text for text in texts}
    for text in texts:
        _write_text(folder, text, tally)
    for dictionary in dictionaries:
        _write_dictionary(folder, dictionary, by_name[dictionary.entry.text], tally, on_progress)
    for number, comparison in enumerate(comparisons):
        columns = {"partners": comparison.partners, "overlaps": comparison.overlaps}
        _put(folder, f"data/comparisons/{number:05d}.st", pack(columns), tally)
    manifest = SiteManifest(
        format=FORMAT,
        schema_version=SCHEMA_VERSION,
        package_version=__version__,
        title=title,
        texts=tuple(text_entry(text) for text in texts),
        dictionaries=tuple(each.entry for each in dictionaries),
        comparisons=tuple(each.entry for each in comparisons),
    )
    _put(folder, MANIFEST, json.dumps(asdict(manifest), ensure_ascii=False, allow_nan=False).encode(), tally)
    return manifest


def text_entry(text: SiteText) -> TextEntry:
    """Describe a text for the manifest."""
    return TextEntry(
        name=text.name,
        n_tokens=len(text.token_ids),
        n_sequences=len(text.sequence_starts),
        n_shards=shard_count(len(text.token_ids)),
        vocabulary_size=len(text.vocabulary),
        unit=text.unit,
        attribution=text.attribution,
    )


def _write_text(folder: Path, text: SiteText, tally: Tally) -> None:
    where = f"data/texts/{text.name}"
    lengths = np.array([len(token) for token in text.vocabulary], dtype=np.int64)
    letters = np.frombuffer(b"".join(text.vocabulary), dtype=np.uint8)
    _put(folder, f"{where}/vocabulary.st", pack({"bytes": letters, "lengths": planes(lengths)}), tally)
    changes = np.flatnonzero(np.diff(text.documents, prepend=text.documents[0] - 1))
    sequences = {
        "sequence_lengths": planes(np.diff(text.sequence_starts, append=len(text.token_ids))),
        "document_lengths": planes(np.diff(changes, append=len(text.token_ids))),
    }
    _put(folder, f"{where}/sequences.st", pack(sequences), tally)
    for shard in range(shard_count(len(text.token_ids))):
        ids = text.token_ids[shard * SHARD_TOKENS : (shard + 1) * SHARD_TOKENS]
        _put(folder, f"{where}/{shard:05d}.st", pack({"token_ids": planes(ids)}), tally)


def _write_dictionary(
    folder: Path, dictionary: SiteDictionary, text: SiteText, tally: Tally, on_progress: Progress
) -> None:
    where = f"data/{dictionary.entry.name}"
    search = TokenSearch(len(text.vocabulary))
    _put(folder, f"{where}/index.st", pack(_column_tensors(dictionary.columns)), tally)
    _put(folder, f"{where}/labels.json.gz", _packed_json([asdict(label) for label in dictionary.labels]), tally)
    if dictionary.entry.clusters is not None:
        clusters = {str(latent): asdict(shown) for latent, shown in sorted(dictionary.clusters.items())}
        _put(folder, f"{where}/clusters.json.gz", _packed_json(clusters), tally)
    if dictionary.entry.patterns is not None:
        patterns = {
            str(latent): [asdict(test) for test in tests] for latent, tests in sorted(dictionary.patterns.items())
        }
        _put(folder, f"{where}/patterns.json.gz", _packed_json(patterns), tally)
    written = 0
    for record in dictionary.latents:
        check_latent(record, written, dictionary, text)
        _put(folder, f"{where}/latents/{record.latent:05d}.st", pack(latent_tensors(record)), tally)
        search.add(record.tokens, record.values)
        written += 1
        on_progress("pages", written, dictionary.entry.n_latents, "")
    if written != dictionary.entry.n_latents:
        raise ValueError(f"{dictionary.entry.name!r} gave {written} latents; n_latents={dictionary.entry.n_latents}")
    _put(folder, f"{where}/tokens.st", pack(search.tensors()), tally)


def _column_tensors(columns: LatentColumns) -> dict[str, np.ndarray]:
    given = {field.name: getattr(columns, field.name) for field in fields(columns)}
    return {name: column for name, column in given.items() if column is not None}


def _packed_json(value: object) -> bytes:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(plain.encode(), mtime=0)


def _put(folder: Path, name: str, content: bytes, tally: Tally) -> None:
    tally.add(name, len(content))
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _take_place(unfinished: Path, folder: Path) -> None:
    """Move a finished site into place, one entry of the folder at a time; nothing else in the folder is touched.

    The former entries are kept until all new ones are in place and on disk. If the process is killed in between, the
    next export restores them first.
    """
    if hasattr(os, "sync"):  # once for thousands of files: an fsync per file would take most of the time
        os.sync()
    former = folder / FORMER
    former.mkdir()
    for new in sorted(unfinished.iterdir()):
        place = folder / new.name
        if place.is_symlink() or place.exists():
            place.rename(former / new.name)
        new.rename(place)
    sync_to_disk(folder)
    shutil.rmtree(former)


def _recover(folder: Path) -> None:
    """Undo what a killed export left: put former entries back, and delete unfinished ones."""
    former = folder / FORMER
    for entry in former.iterdir() if former.is_dir() else ():
        place = folder / entry.name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        entry.replace(place)
    for name in (FORMER, UNFINISHED):
        shutil.rmtree(folder / name, ignore_errors=True)
