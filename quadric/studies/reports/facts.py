"""Where an autoencoder comes from, as short facts in words: no dictionaries, no None, no Python spelling."""

import re
from collections.abc import Iterator
from typing import Any

from quadric.studies.reports.run_report import RunReport, readable_bits

TITLES = {
    "d_model": "width of the activations (d)",
    "n_latents": "latents (k)",
    "n_hidden": "atoms (h)",
    "mixing_density": "share of C that is not zero",
    "init": "initialization",
    "symmetric": "symmetric kernel",
    "tied": "tied factors (L = R)",
    "model": "language model",
    "hook_point": "hook point",
    "corpus": "text",
    "normalisation": "normalization",
    "bos": "BOS token",
    "prepend_bos": "BOS token in front",
}
HASH = re.compile(r"(?:[\w-]*:)?[0-9a-f]{32,}")
SHOWN_OF_HASH = 12
"""Characters; the JSON of the report holds the whole."""
NESTED = {"corpus_settings": "Text settings", "token_rules": "Token rules"}


def facts(report: RunReport) -> dict[str, dict[str, str]]:
    """Facts by heading: the autoencoder, what it was trained on, and each nested group of settings."""
    bits = report.bits
    length = (
        f"{readable_bits(bits.total)} at {bits.precision} bits per number: atoms {readable_bits(bits.atoms)}, "
        f"supports {readable_bits(bits.supports)}, weights {readable_bits(bits.weights)}"
    )
    flat = {name: value for name, value in report.provenance.items() if name not in NESTED}
    nested = {heading: _worded(report.provenance.get(name) or {}) for name, heading in NESTED.items()}
    every = {
        "Autoencoder": {**_worded(report.architecture), "description length": length},
        "Trained on": _worded(flat),
        **nested,
    }
    return {heading: found for heading, found in every.items() if found}


def _worded(values: dict[str, Any]) -> dict[str, str]:
    return {
        TITLES.get(name, name.replace("_", " ")): words for name, value in values.items() for words in _words(value)
    }


def _words(value: Any) -> Iterator[str]:
    """A value as a reader would write it; nothing for None."""
    if value is None:
        return
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, int):
        yield f"{value:,}"
    elif isinstance(value, float):
        yield f"{value:g}"
    elif isinstance(value, dict):
        yield ", ".join(f"{name.replace('_', ' ')} {words}" for name, each in value.items() for words in _words(each))
    elif not isinstance(value, str):
        yield ", ".join(words for each in value for words in _words(each))
    else:
        yield f"{value[:SHOWN_OF_HASH]}…" if HASH.fullmatch(value) else value
