"""The origin of activations, in enough detail to compute them again.

It is made from a config, and a config is made from it. A dictionary records the language model that it was trained on,
which is compared with the one that it is used with.
"""

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from quadric._io.records import record_from_json
from quadric.data.corpus import CorpusConfig, CorpusIdentity, identify
from quadric.data.hook_points import parse_hook_points
from quadric.data.models import (
    LanguageModel,
    ModelError,
    ModelShape,
    ModelSource,
    chosen_device,
    find_model,
    folder_fingerprint,
    load_shape,
    resolved_dtype,
    sampled_fingerprint,
)
from quadric.data.settings import ActivationConfig, ModelDtype, TokenRules
from quadric.model import Provenance
from quadric.version import __version__

NOT_COMPARED = ("quadric_version",)
TOP_LEVEL = ("split", "packing", "block_length")
"""Settings of the corpus that are fields of their own in a provenance."""
ROWS = "rows"
"""Used as the hook point of rows that the user provides."""


class ProvenanceError(ValueError):
    """Activations whose origin differs from the requested one."""


@dataclass(frozen=True, kw_only=True)
class StreamProvenance:
    """Everything that determines the values of a stream, but not how it is batched or stored.

    Rows that the user provides have no model and no text; their hash identifies them.
    """

    model: str | None = None
    model_revision: str | None = None
    model_dtype: str | None = None
    hook_points: tuple[str, ...]
    tokenizer_fingerprint: str | None = None
    corpus: str | None = None
    corpus_revision: str | None = None
    corpus_settings: dict[str, Any] | None = None
    split: str | None = None
    packing: str | None = None
    block_length: int | None = None
    token_rules: dict[str, Any] | None = None
    normalisation: str = "none"
    """Vectors are stored as the model computes them; the autoencoder scales them."""
    quadric_version: str = __version__
    rows_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `rows_sha256` is included only for rows that the user provided."""
        record = asdict(self) | {"hook_points": list(self.hook_points)}
        if self.rows_sha256 is None:
            del record["rows_sha256"]
        return record

    def for_hook_point(self, hook_point: str) -> Provenance:
        """The provenance stored with an autoencoder of one hook point; the autoencoder itself does the scaling."""
        if hook_point not in self.hook_points:
            raise ProvenanceError(f"no hook point '{hook_point}' here; there are {', '.join(self.hook_points)}")
        record = self.to_dict()
        for name in ("hook_points", "normalisation", "quadric_version", "rows_sha256"):
            record.pop(name, None)
        return Provenance(hook_point=None if hook_point == ROWS else hook_point, **record)

    @classmethod
    def from_dict(cls, record: object) -> "StreamProvenance":
        """The inverse of `to_dict`; unknown or missing keys are errors."""
        complete = {"rows_sha256": None, **record} if isinstance(record, dict) else record
        return record_from_json(cls, complete, "provenance")

    def differences(self, asked: "StreamProvenance") -> list[str]:
        """Every field in which the stored provenance differs from the requested one, with both values."""
        return differences(self.to_dict(), asked.to_dict(), NOT_COMPARED)


def differences(stored: dict[str, Any], asked: dict[str, Any], ignore: tuple[str, ...] = ()) -> list[str]:
    """`field: stored X, asked for Y` for every field that differs; nested fields are named by their path."""
    lines = []
    for name in dict.fromkeys([*stored, *asked]):
        here, there = stored.get(name), asked.get(name)
        if name in ignore or here == there:
            continue
        if isinstance(here, dict) and isinstance(there, dict):
            lines += [f"{name}.{line}" for line in differences(here, there)]
        else:
            lines.append(f"{name}: stored {json.dumps(here)}, asked for {json.dumps(there)}")
    return lines


def describe(config: ActivationConfig, *, device: str = "auto") -> StreamProvenance:
    """The provenance of the activations that a config describes, without loading the model's weights.

    Args:
        config: Model, text, hook points and token rules.
        device: Device of the model, which decides its data type.

    Returns:
        What a stream of these activations, a cache of them or a dictionary trained on them would record.

    Example:
        >>> from quadric.data import ActivationConfig, describe
        >>> from quadric.data.corpus import CorpusConfig
        >>> config = ActivationConfig(model="my-model", hook_points="2", corpus=CorpusConfig(source="texts.jsonl"))
        >>> described = describe(config)
        >>> described.model, described.corpus, described.hook_points
        ('my-model', 'texts.jsonl', ('resid_pre.2',))
    """
    source = find_model(config.model, config.model_revision)
    return provenance_of(config, source, load_shape(source), device)


def provenance_of(
    config: ActivationConfig,
    source: ModelSource,
    shape: ModelShape,
    device: str,
    corpus: CorpusIdentity | None = None,
) -> StreamProvenance:
    """As `describe`, for a model that is already located; `corpus` identifies texts in memory."""
    if shape.longest is not None and config.corpus.block_length > shape.longest:
        raise ValueError(
            f"block_length={config.corpus.block_length} exceeds the {shape.longest} tokens that {source.name} can "
            f"read; give at most {shape.longest}"
        )
    dtype = resolved_dtype(config.model_dtype, chosen_device(device))
    corpus = corpus or identify(config.corpus)
    settings = asdict(config.corpus)
    top_level = {name: settings.pop(name) for name in TOP_LEVEL}
    for recorded_as_identity in ("source", "revision"):
        del settings[recorded_as_identity]
    return StreamProvenance(
        model=source.name,
        model_revision=source.revision,
        model_dtype=shape.checkpoint_dtype if dtype == "auto" else str(dtype).removeprefix("torch."),
        hook_points=tuple(map(str, parse_hook_points(config.hook_points, shape.n_layers))),
        tokenizer_fingerprint=shape.tokenizer.fingerprint(),
        corpus=corpus.name,
        corpus_revision=corpus.revision,
        corpus_settings=settings,
        token_rules=config.rules.as_recorded(shape.tokenizer),
        **top_level,
    )


def config_from(provenance: Provenance, *, model: str | None = None, corpus: str | None = None) -> ActivationConfig:
    """The config of the activations that an autoencoder was trained on.

    `model` and `corpus` give their present location, since provenance records only the name of a folder or file. A
    dictionary that was trained elsewhere records no text: `corpus` is then read by the rules that are the default here.
    """
    if provenance.hook_point is not None and provenance.corpus_settings is None and provenance.token_rules is None:
        return _with_default_rules(provenance, provenance.hook_point, model, corpus)
    required = ("model", "hook_point", "corpus", "corpus_settings", *TOP_LEVEL, "token_rules")
    recorded = {name: getattr(provenance, name) for name in required}
    if missing := [name for name, value in recorded.items() if value is None]:
        raise ValueError(
            f"the autoencoder does not record its {', '.join(missing)}, so its activations cannot be computed again; "
            "train it with quadric train, which records them"
        )
    names = {field.name for field in fields(TokenRules)}
    return ActivationConfig(
        model=model or recorded["model"],
        model_revision=_hub_revision(provenance.model_revision) if model is None else None,
        model_dtype=cast(ModelDtype, provenance.model_dtype or "auto"),
        hook_points=recorded["hook_point"],
        corpus=CorpusConfig(
            source=corpus or recorded["corpus"],
            revision=_hub_revision(provenance.corpus_revision) if corpus is None else None,
            **{name: recorded[name] for name in TOP_LEVEL},
            **recorded["corpus_settings"],
        ),
        rules=TokenRules(**{name: value for name, value in recorded["token_rules"].items() if name in names}),
    )


def _with_default_rules(
    provenance: Provenance, hook_point: str, model: str | None, corpus: str | None
) -> ActivationConfig:
    name = model or provenance.model
    if name is None or corpus is None:
        missing = [flag for flag, value in (("--model", name), ("--corpus", corpus)) if value is None]
        raise ValueError(
            f"the autoencoder was trained elsewhere, on {provenance.model or 'an unknown model'} at {hook_point}, "
            f"and does not record its text; give {' and '.join(missing)}"
        )
    return ActivationConfig(model=name, hook_points=hook_point, corpus=CorpusConfig(source=corpus))


def _hub_revision(recorded: str | None) -> str | None:
    """The revision to download, if it is a commit on the hub; the hash of a file or package can only be compared."""
    return recorded if recorded and re.fullmatch(r"[0-9a-f]{40}", recorded) else None


SAMPLED = "sampled-sha256:"
FILES = "sha256:"


class WrongModelError(ModelError):
    """A dictionary and a language model that do not belong together."""


def check_same_model(model: LanguageModel | Any, provenance: Provenance) -> None:
    """Raise unless the model has the revision that the dictionary's provenance records, or none is recorded."""
    wanted = provenance.model_revision
    if wanted is None:
        return
    revision = _revision_like(model, wanted)
    if revision == wanted:
        return
    known = f"it has revision {revision[:27]}" if revision else "its revision is unknown"
    raise WrongModelError(
        f"the dictionary was trained on {provenance.model} (revision {wanted[:27]}), and this model may be another: "
        f"{known}; load the model of the dictionary, or give check_model=False if you are sure"
    )


def _revision_like(model: LanguageModel | Any, wanted: str) -> str | None:
    """The model's revision, of the kind of the wanted one if it has that: sampled values, files, or a commit."""
    causal = model.causal if isinstance(model, LanguageModel) else model
    if wanted.startswith(SAMPLED):
        return sampled_fingerprint(causal)
    recorded = model.revision if isinstance(model, LanguageModel) else None
    if recorded is not None and not recorded.startswith(SAMPLED):
        return recorded
    # A model that was given in memory: `from_pretrained` notes where it came from.
    folder = Path(str(getattr(causal.config, "name_or_path", "") or ""))
    if wanted.startswith(FILES) and folder.name and (folder / "config.json").is_file():
        return folder_fingerprint(folder)
    commit: str | None = getattr(causal.config, "_commit_hash", None)
    return commit or recorded
