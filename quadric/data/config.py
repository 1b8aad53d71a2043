"""From a config to the provenance of its activations, and from stored provenance back to a config."""

import re
from dataclasses import asdict, fields
from typing import cast

from quadric.data.corpus import CorpusConfig, CorpusIdentity, identify
from quadric.data.hook_points import parse_hook_points
from quadric.data.models import (
    ModelShape,
    ModelSource,
    chosen_device,
    find_model,
    load_shape,
    resolved_dtype,
)
from quadric.data.provenance import StreamProvenance
from quadric.data.settings import ActivationConfig, ModelDtype, TokenRules
from quadric.model import Provenance


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
    own_fields = {name: settings.pop(name) for name in ("split", "packing", "block_length")}
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
        **own_fields,
    )


def config_from(provenance: Provenance, *, model: str | None = None, corpus: str | None = None) -> ActivationConfig:
    """The config of the activations that an autoencoder was trained on.

    `model` and `corpus` give their present location, since provenance records only the name of a folder or file. A
    dictionary that was trained elsewhere records no text: `corpus` is then read by the rules that are the default here.
    """
    if _trained_elsewhere(provenance):
        return _with_default_rules(provenance, model, corpus)
    required = ("model", "hook_point", "corpus", "corpus_settings", "split", "packing", "block_length", "token_rules")
    if missing := [name for name in required if getattr(provenance, name) is None]:
        raise ValueError(
            f"the autoencoder does not record its {', '.join(missing)}, so its activations cannot be computed again; "
            "train it with quadric train, which records them"
        )
    assert provenance.model is not None
    assert provenance.hook_point is not None
    assert provenance.corpus_settings is not None
    assert provenance.token_rules is not None
    own = {field.name for field in fields(TokenRules)}
    settings = provenance.corpus_settings | {
        "source": corpus or provenance.corpus,
        "revision": _hub_revision(provenance.corpus_revision) if corpus is None else None,
        **{name: getattr(provenance, name) for name in ("split", "packing", "block_length")},
    }
    return ActivationConfig(
        model=model or provenance.model,
        model_revision=_hub_revision(provenance.model_revision) if model is None else None,
        model_dtype=cast(ModelDtype, provenance.model_dtype or "auto"),
        hook_points=provenance.hook_point,
        corpus=CorpusConfig(**settings),
        rules=TokenRules(**{name: value for name, value in provenance.token_rules.items() if name in own}),
    )


def _trained_elsewhere(provenance: Provenance) -> bool:
    return provenance.hook_point is not None and provenance.corpus_settings is None and provenance.token_rules is None


def _with_default_rules(provenance: Provenance, model: str | None, corpus: str | None) -> ActivationConfig:
    name = model or provenance.model
    assert provenance.hook_point is not None
    if name is None or corpus is None:
        missing = [flag for flag, value in (("--model", name), ("--corpus", corpus)) if value is None]
        raise ValueError(
            f"the autoencoder was trained elsewhere, on {provenance.model or 'an unknown model'} at "
            f"{provenance.hook_point}, and does not record its text; give {' and '.join(missing)}"
        )
    return ActivationConfig(model=name, hook_points=provenance.hook_point, corpus=CorpusConfig(source=corpus))


def _hub_revision(recorded: str | None) -> str | None:
    """The revision to download, if it is a commit on the hub; the hash of a file or package can only be compared."""
    return recorded if recorded and re.fullmatch(r"[0-9a-f]{40}", recorded) else None
