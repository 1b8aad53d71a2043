"""Checks before a site is written: names, lengths, indices, hosting limits."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quadric.viewer.schema import (
    MOST_CLUSTERS,
    NO_AXIS,
    NOTHING,
    PRINCIPAL_COMPONENT,
    SHAPES,
    SHARD_TOKENS,
    UNITS,
    LatentRecord,
    SiteComparison,
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


def check_comparison(comparison: SiteComparison, dictionaries: Sequence[SiteDictionary]) -> None:
    """Both dictionaries must be on the site, and every partner a latent of the second."""
    entry, sizes = comparison.entry, {each.entry.name: each.entry.n_latents for each in dictionaries}
    where = f"the comparison of {entry.first!r} with {entry.second!r}"
    if not {entry.first, entry.second} <= sizes.keys():
        raise ValueError(f"{where} names a dictionary that is not on the site; there are {sorted(sizes)}")
    partners = comparison.partners
    if len(partners) != sizes[entry.first] or len(comparison.overlaps) != sizes[entry.first]:
        raise ValueError(f"{where} has {len(partners)} latents; the first dictionary has {sizes[entry.first]}")
    if partners.min(initial=NOTHING) < NOTHING or partners.max(initial=NOTHING) >= sizes[entry.second]:
        raise ValueError(f"{where} has partners beyond the {sizes[entry.second]} latents of the second")
    if not (np.isfinite(comparison.overlaps) & (comparison.overlaps >= 0) & (comparison.overlaps <= 1)).all():
        raise ValueError(f"{where} has overlaps that are not between 0 and 1")


def check_text(text: SiteText) -> None:
    """Ids must be within the vocabulary; sequences must start at 0 and ascend."""
    n = len(text.token_ids)
    if n == 0 or n >= 2**31:
        raise ValueError(f"text {text.name!r} has {n} tokens; expected 1 to 2³¹ − 1")
    if text.token_ids.min() < 0 or text.token_ids.max() >= len(text.vocabulary):
        raise ValueError(
            f"text {text.name!r} has token ids from {text.token_ids.min()} to {text.token_ids.max()}; "
            f"its vocabulary has {len(text.vocabulary)} tokens"
        )
    starts = text.sequence_starts
    if len(starts) == 0 or starts[0] != 0 or starts[-1] >= n or bool((np.diff(starts) <= 0).any()):
        raise ValueError(f"sequence_starts of text {text.name!r} must ascend from 0 and stay below {n}")
    if len(text.documents) != n:
        raise ValueError(
            f"text {text.name!r} has {n} tokens but {len(text.documents)} documents; expected one per token"
        )
    if text.unit not in UNITS:
        raise ValueError(f"text {text.name!r} has unit {text.unit!r}; expected one of {UNITS}")


def check_dictionary(dictionary: SiteDictionary) -> None:
    """Every column needs one finite number per latent."""
    entry = dictionary.entry
    for name, column in vars(dictionary.columns).items():
        if column is None:
            continue
        if len(column) != entry.n_latents:
            raise ValueError(f"column {name} of {entry.name!r} has {len(column)} rows; n_latents={entry.n_latents}")
        if not np.isfinite(column).all():
            raise ValueError(f"column {name} of {entry.name!r} is not finite at latent {_first_odd(column)}")
    if len(dictionary.labels) != entry.n_latents:
        raise ValueError(f"{entry.name!r} has {len(dictionary.labels)} labels; n_latents={entry.n_latents}")
    for latent, found in dictionary.clusters.items():
        if not 0 <= latent < entry.n_latents or len(found.clusters) > MOST_CLUSTERS:
            raise ValueError(
                f"{entry.name!r} has {len(found.clusters)} clusters for latent {latent}; expected at most "
                f"{MOST_CLUSTERS}, for latents below {entry.n_latents}"
            )
    _check_patterns(dictionary)
    copied = dictionary.columns.copy_of
    if copied.min(initial=NOTHING) < NOTHING or copied.max(initial=NOTHING) >= entry.n_latents:
        raise ValueError(f"column copy_of of {entry.name!r} must hold latents or {NOTHING}")
    if dictionary.columns.shape.min(initial=0) < 0 or dictionary.columns.shape.max(initial=0) >= len(SHAPES):
        raise ValueError(f"column shape of {entry.name!r} must hold indices into {SHAPES}")


def _check_patterns(dictionary: SiteDictionary) -> None:
    """The examples of a pattern must be latents that show it."""
    entry, shown = dictionary.entry, set()
    for latent, tests in dictionary.patterns.items():
        if not 0 <= latent < entry.n_latents:
            raise ValueError(f"{entry.name!r} has patterns of latent {latent}; n_latents={entry.n_latents}")
        shown |= {(latent, each.name) for each in tests if each.shown}
    for kind in entry.patterns.kinds if entry.patterns else ():
        for latent in kind.best:
            if (latent, kind.name) not in shown:
                raise ValueError(f"latent {latent} of {entry.name!r} is an example of a {kind.name} that it lacks")


def _first_odd(column: np.ndarray) -> int:
    return int(np.flatnonzero(~np.isfinite(column))[0])


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
