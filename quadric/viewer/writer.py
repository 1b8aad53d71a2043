"""Write schema objects as a folder of static files, one latent at a time, within the limits of free hosts."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadric._io.files import name_disk_errors, read_json, sync_to_disk
from quadric._io.locks import entries, only_writer
from quadric._io.own_files import RECORD, files_in, own_files, record_files
from quadric._io.progress import Progress, no_progress
from quadric.version import __version__
from quadric.viewer import schema
from quadric.viewer.encoding import TokenSearch, latent_tensors, pack, planes
from quadric.viewer.schema import SiteComparison, SiteDictionary, SiteManifest, SiteText

MANIFEST = "data/site.json"
STATIC = Path(__file__).parent / "static"
UNFINISHED, FORMER = ".quadric-site-unfinished", ".quadric-site-former"
"""Folders in the site's folder while it is being replaced; a killed export leaves them."""
OWN_FOLDERS = ("assets", "data")
"""Folders that an export replaces as a whole."""
RESERVED = ("texts", "comparisons")
"""Folders beside those of dictionaries."""
FILES_BESIDE_DATA = 32
"""Allowance for the files of the viewer."""
FOLDER_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class HostingLimits:
    """What free static hosts accept: number and size of files of Cloudflare Pages, total size of GitHub Pages."""

    files: int = 20_000
    file_bytes: int = 25 * 2**20
    total_bytes: int = 10**9


@dataclass
class _Files:
    """The files of a site that is being written; one that exceeds a limit is refused."""

    folder: Path
    limits: HostingLimits | None
    total: int = 0

    def put(self, name: str, content: bytes) -> None:
        self.total += len(content)
        if self.limits is not None and len(content) > self.limits.file_bytes:
            raise ValueError(
                f"{name} would take {len(content):,} bytes; hosts take {self.limits.file_bytes:,} per file: "
                "keep fewer points per latent, or lift the hosting limits for a site that stays local"
            )
        if self.limits is not None and self.total > self.limits.total_bytes:
            raise ValueError(
                f"the site would exceed {self.limits.total_bytes:,} bytes at {name}: keep fewer points per latent, put "
                "fewer dictionaries into one site, or lift the hosting limits for a site that stays local"
            )
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def put_json(self, name: str, value: object) -> None:
        plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        self.put(name, gzip.compress(plain.encode(), mtime=0))


def write_site(
    folder: Path,
    *,
    title: str,
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    comparisons: Sequence[SiteComparison] = (),
    weights: Mapping[str, str] | None = None,
    limits: HostingLimits | None = HostingLimits(),  # noqa: B008  (frozen)
    static: Path = STATIC,
    on_progress: Progress = no_progress,
) -> SiteManifest:
    """Write a whole site or nothing: files go to a hidden folder in `folder` and take their places at the end.

    An existing site is replaced, and files in its folder that do not belong to it (.git, CNAME) are left alone; any
    other folder that is not empty is refused. `limits=None` is for a site that stays on this machine, `weights` is the
    hash of each dictionary's tensors by its name on the site.
    """
    for dictionary in dictionaries:
        check_dictionary(dictionary)
    check_file_count(texts, dictionaries, limits, len(comparisons))
    check_replaceable(folder, static)
    check_viewer_built(static)
    with only_writer(folder, "quadric site"), name_disk_errors(folder):
        _recover(folder)
        files = _Files(folder / UNFINISHED, limits)
        try:
            # Not shutil.copytree, whose error of a full disk is a list of texts.
            for path in sorted(path for path in static.rglob("*") if path.is_file()):
                if path.name != "build.json" and path.stem != "notebook":
                    files.put(path.relative_to(static).as_posix(), path.read_bytes())
            manifest = _write_data(files, title, texts, dictionaries, comparisons, on_progress)
            record_files(files.folder, files_in(files.folder), weights)
            check_replaceable(folder, static)  # again: much may have been put there since
            _take_place(files.folder, folder)
        finally:
            shutil.rmtree(files.folder, ignore_errors=True)
    return manifest


def is_site(folder: Path) -> bool:
    """Whether the folder holds a site, of any schema version."""
    try:
        return bool(read_json(folder / MANIFEST, "export again").get("format") == schema.FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def check_replaceable(folder: Path, static: Path = STATIC) -> None:
    """Refuse to overwrite anything but a site, what a killed export left, or an empty folder."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file; name a folder for the site")
    names = {path.name for path in entries(folder)}
    if names - {UNFINISHED} and FORMER not in names and not is_site(folder):
        raise FileExistsError(f"'{folder}' is not empty and not a site made by Quadric; name another folder")
    own = set().union(*(own_files(each) for each in (folder, folder / FORMER, folder / UNFINISHED)))
    if not own and is_site(folder):
        raise FileExistsError(
            f"'{folder}' holds a site of an earlier Quadric, which kept no record of its files; delete it if none is "
            "yours, or name another folder"
        )
    replaced = {path.name for path in static.glob("*") if path.is_file()} | {RECORD}
    inside = (path for top in OWN_FOLDERS for path in (folder / top, *sorted((folder / top).rglob("*"))))
    for path in [*(folder / name for name in sorted(names & replaced)), *inside]:
        if path.is_symlink() or (path.is_file() and path.relative_to(folder).as_posix() not in own):
            raise FileExistsError(
                f"'{path}' does not belong to the site in '{folder}'; move it, or name another folder"
            )


def check_viewer_built(static: Path = STATIC) -> None:
    """Refuse to write or serve a site without the files of the viewer."""
    if not (static / "index.html").is_file():
        raise FileNotFoundError(
            f"the viewer is not built: no index.html in '{static}'; in a clone run make, or reinstall quadric where "
            "the npm registry can be reached"
        )


def check_file_count(
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    limits: HostingLimits | None,
    n_comparisons: int = 0,
) -> None:
    """Refuse a site with too many files before any is written."""
    shards = sum(shard_count(len(text.token_ids)) + 2 for text in texts)
    latents = sum(dictionary.entry.n_latents + 5 for dictionary in dictionaries)
    count = shards + latents + n_comparisons + 1 + FILES_BESIDE_DATA
    if limits is not None and count > limits.files:
        raise ValueError(
            f"the site would have {count:,} files ({latents:,} of latents); hosts take {limits.files:,}: "
            "put fewer dictionaries into one site, or lift the hosting limits for a site that stays local"
        )


def shard_count(n_tokens: int) -> int:
    """Number of shards for a number of tokens."""
    return -(-n_tokens // schema.SHARD_TOKENS)


def check_dictionary(dictionary: SiteDictionary) -> None:
    """Refuse a name that cannot be a folder, and columns that the viewer cannot draw."""
    name = dictionary.entry.name
    if not FOLDER_NAME.fullmatch(name) or name in RESERVED:
        raise ValueError(f"name {name!r} cannot be a folder; use letters, digits, dot, dash, underscore")
    columns = {column: values for column, values in vars(dictionary.columns).items() if values is not None}
    check_finite(columns, repr(name))


def check_finite(values: Mapping[str, Any], where: str) -> None:
    """Refuse what cannot be drawn; the error names the latent."""
    for name, numbers in values.items():
        if not np.isfinite(numbers).all():
            raise ValueError(f"{where} has numbers in {name} that are not finite")


def _write_data(
    files: _Files,
    title: str,
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    comparisons: Sequence[SiteComparison],
    on_progress: Progress,
) -> SiteManifest:
    by_name = {text.name: text for text in texts}
    for text in texts:
        _write_text(files, text)
    for dictionary in dictionaries:
        _write_dictionary(files, dictionary, by_name[dictionary.entry.text], on_progress)
    for number, comparison in enumerate(comparisons):
        columns = {"partners": comparison.partners, "overlaps": comparison.overlaps}
        files.put(f"data/comparisons/{number:05d}.st", pack(columns))
    manifest = SiteManifest(
        format=schema.FORMAT,
        schema_version=schema.SCHEMA_VERSION,
        package_version=__version__,
        title=title,
        texts=tuple(text_entry(text) for text in texts),
        dictionaries=tuple(dictionary.entry for dictionary in dictionaries),
        comparisons=tuple(comparison.entry for comparison in comparisons),
    )
    files.put(MANIFEST, json.dumps(asdict(manifest), ensure_ascii=False, allow_nan=False).encode())
    return manifest


def text_entry(text: SiteText) -> schema.TextEntry:
    """Describe a text for the manifest."""
    return schema.TextEntry(
        name=text.name,
        n_tokens=len(text.token_ids),
        n_sequences=len(text.sequence_starts),
        n_shards=shard_count(len(text.token_ids)),
        vocabulary_size=len(text.vocabulary),
        unit=text.unit,
        attribution=text.attribution,
    )


def _write_text(files: _Files, text: SiteText) -> None:
    where = f"data/texts/{text.name}"
    lengths = np.array([len(token) for token in text.vocabulary], dtype=np.int64)
    letters = np.frombuffer(b"".join(text.vocabulary), dtype=np.uint8)
    files.put(f"{where}/vocabulary.st", pack({"bytes": letters, "lengths": planes(lengths)}))
    changes = np.flatnonzero(np.diff(text.documents, prepend=text.documents[0] - 1))
    sequences = {
        "sequence_lengths": planes(np.diff(text.sequence_starts, append=len(text.token_ids))),
        "document_lengths": planes(np.diff(changes, append=len(text.token_ids))),
    }
    files.put(f"{where}/sequences.st", pack(sequences))
    for shard in range(shard_count(len(text.token_ids))):
        ids = text.token_ids[shard * schema.SHARD_TOKENS : (shard + 1) * schema.SHARD_TOKENS]
        files.put(f"{where}/{shard:05d}.st", pack({"token_ids": planes(ids)}))


def _write_dictionary(files: _Files, dictionary: SiteDictionary, text: SiteText, on_progress: Progress) -> None:
    entry, where = dictionary.entry, f"data/{dictionary.entry.name}"
    search = TokenSearch(len(text.vocabulary))
    columns = {name: column for name, column in vars(dictionary.columns).items() if column is not None}
    files.put(f"{where}/index.st", pack(columns))
    files.put_json(f"{where}/labels.json.gz", [asdict(label) for label in dictionary.labels])
    if entry.clusters is not None:
        shown = {str(latent): asdict(clusters) for latent, clusters in sorted(dictionary.clusters.items())}
        files.put_json(f"{where}/clusters.json.gz", shown)
    if entry.patterns is not None:
        patterns = sorted(dictionary.patterns.items())
        tested = {str(latent): [asdict(test) for test in tests] for latent, tests in patterns}
        files.put_json(f"{where}/patterns.json.gz", tested)
    for number, record in enumerate(dictionary.latents, start=1):
        check_finite(vars(record), f"latent {record.latent} of {entry.name!r}")
        files.put(f"{where}/latents/{record.latent:05d}.st", pack(latent_tensors(record)))
        search.add(record.tokens, record.values)
        on_progress("pages", number, entry.n_latents, "")
    files.put(f"{where}/tokens.st", pack(search.tensors()))


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
