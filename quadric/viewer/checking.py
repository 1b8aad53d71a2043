"""Checks before a site is written: names, hosting limits, and that every latent can be drawn."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quadric.viewer.schema import (
    NO_AXIS,
    NOTHING,
    PRINCIPAL_COMPONENT,
    SHARD_TOKENS,
    LatentRecord,
    SiteDictionary,
    SiteText,
)

RESERVED = ("texts", "comparisons")
"""Folders beside those of dictionaries."""
FILES_BESIDE_DATA = 32
"""Allowance for the files of the viewer."""

_PER_AXIS = ("axis_quadratic", "axis_linear", "axis_kind")
_FINITE = (
    "eigenvalues",
    "axis_quadratic",
    "axis_linear",
    "constant",
    "rest",
    "curvature",
    "measured_curvature",
    "values",
    "coordinates",
    "control",
    "linear",
    "overlaps",
    "quantiles",
    "lifts",
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class HostingLimits:
    """What free static hosts accept: number and size of files of Cloudflare Pages, total size of GitHub Pages."""

    files: int = 20_000
    file_bytes: int = 25 * 2**20
    total_bytes: int = 10**9


@dataclass
class Tally:
    """Counts the bytes of a site and raises as soon as a limit is exceeded."""

    limits: HostingLimits | None
    total: int = 0

    def add(self, name: str, size: int) -> None:
        self.total += size
        if self.limits is None:
            return
        if size > self.limits.file_bytes:
            raise ValueError(
                f"{name} would take {size:,} bytes; hosts take {self.limits.file_bytes:,} per file: "
                "keep fewer points per latent, or lift the hosting limits for a site that stays local"
            )
        if self.total > self.limits.total_bytes:
            raise ValueError(
                f"the site would exceed {self.limits.total_bytes:,} bytes at {name}: keep fewer points per latent, put "
                "fewer dictionaries into one site, or lift the hosting limits for a site that stays local"
            )


def check_file_count(
    texts: Sequence[SiteText],
    dictionaries: Sequence[SiteDictionary],
    limits: HostingLimits | None,
    n_comparisons: int = 0,
) -> None:
    """Refuse a site with too many files before any is written."""
    shards = sum(shard_count(len(text.token_ids)) + 2 for text in texts)
    latents = sum(each.entry.n_latents + 5 for each in dictionaries)
    count = shards + latents + n_comparisons + 1 + FILES_BESIDE_DATA
    if limits is not None and count > limits.files:
        raise ValueError(
            f"the site would have {count:,} files ({latents:,} of latents); hosts take {limits.files:,}: "
            "put fewer dictionaries into one site, or lift the hosting limits for a site that stays local"
        )


def shard_count(n_tokens: int) -> int:
    """Number of shards for a number of tokens."""
    return -(-n_tokens // SHARD_TOKENS)


def check_names(texts: Sequence[SiteText], dictionaries: Sequence[SiteDictionary]) -> None:
    """Names must be unique and usable as folders and in addresses; the text of every dictionary must exist."""
    names = [text.name for text in texts], [each.entry.name for each in dictionaries]
    for kind, given in zip(("text", "dictionary"), names, strict=True):
        for name in given:
            if not _NAME.fullmatch(name) or (kind == "dictionary" and name in RESERVED):
                raise ValueError(f"{kind} name {name!r} cannot be a folder; use letters, digits, dot, dash, underscore")
            if given.count(name) > 1:
                raise ValueError(f"{kind} name {name!r} is used twice; give each its own name")
    if not dictionaries:
        raise ValueError("the site has no dictionary; give at least one")
    for each in dictionaries:
        if each.entry.text not in names[0]:
            raise ValueError(f"dictionary {each.entry.name!r} names text {each.entry.text!r}; there are {names[0]}")


def check_dictionary(dictionary: SiteDictionary) -> None:
    """Every column needs one finite number per latent."""
    entry = dictionary.entry
    for name, column in vars(dictionary.columns).items():
        if column is None:
            continue
        if len(column) != entry.n_latents:
            raise ValueError(f"column {name} of {entry.name!r} has {len(column)} rows; n_latents={entry.n_latents}")
        if not np.isfinite(column).all():
            raise ValueError(f"column {name} of {entry.name!r} is not finite at latent {np.isfinite(column).argmin()}")
    if len(dictionary.labels) != entry.n_latents:
        raise ValueError(f"{entry.name!r} has {len(dictionary.labels)} labels; n_latents={entry.n_latents}")


def check_latent(record: LatentRecord, expected: int, dictionary: SiteDictionary, text: SiteText) -> None:
    """Refuse a record that the viewer cannot draw; the error names the latent."""
    where = f"latent {record.latent} of {dictionary.entry.name!r}"
    if record.latent != expected:
        raise ValueError(f"{where} was given where latent {expected} was expected; give them in order from 0")
    if record.coordinates.shape[1] != dictionary.entry.n_axes:
        raise ValueError(f"{where} has {record.coordinates.shape[1]} axes; the entry says {dictionary.entry.n_axes}")
    for name in _PER_AXIS:
        if len(getattr(record, name)) != dictionary.entry.n_axes:
            raise ValueError(f"{where} has {len(getattr(record, name))} {name}; n_axes={dictionary.entry.n_axes}")
    for name in _FINITE:
        if not np.isfinite(getattr(record, name)).all():
            raise ValueError(f"{where} has numbers in {name} that are not finite")
    if bool((np.diff(np.abs(record.values - np.float32(record.rest))) > 0).any()):
        raise ValueError(f"points of {where} must be sorted by |z − rest| descending")
    m, n, k = len(record.places), len(text.token_ids), dictionary.entry.n_latents
    bounds = {"places": (0, n), "tokens": (0, len(text.vocabulary)), "contexts": (NOTHING, m), "neighbours": (0, k)}
    found = dictionary.clusters.get(record.latent)
    bounds |= {
        "axis_kind": (NO_AXIS, PRINCIPAL_COMPONENT + 1),
        "clusters": (NOTHING, len(found.clusters) if found else 0),
    }
    tokens = {"context_tokens": (NOTHING, len(text.vocabulary)), "lift_tokens": (NOTHING, len(text.vocabulary))}
    for name, (low, high) in (bounds | tokens).items():
        numbers = getattr(record, name)
        if numbers.size and not low <= numbers.min() <= numbers.max() < high:
            raise ValueError(
                f"{name} of {where} run from {numbers.min()} to {numbers.max()}; must be in [{low}, {high})"
            )
