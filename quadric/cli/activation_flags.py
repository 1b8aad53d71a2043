"""The flag groups of every command that runs the language model: model, text, token rules."""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, Taken, flag_group, take
from quadric.data.settings import ActivationConfig, CorpusConfig, TokenRules

DEFAULT_LAYERS = "15"


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Where the computation runs."""

    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, under torchrun each process's own, else the
    CPU."""


def layers_flag(default: str | None) -> Taken:
    """--layers, alias --layer; required where there is no default."""
    return take(
        ActivationConfig,
        "hook_points",
        renamed={"hook_points": "layers"},
        aliases={"hook_points": ("--layer",)},
        defaults={} if default is None else {"hook_points": default},
        required=("hook_points",) if default is None else (),
    )


def model_flags(layers: Taken) -> type[FlagGroup]:
    """The flags of the model; commands differ in the default of --layers."""
    own = take(ActivationConfig, "model", "model_revision", "model_dtype", "sequences_per_forward")
    return flag_group("ModelFlags", layers, own, take(Computation))


ModelFlags = model_flags(layers_flag(DEFAULT_LAYERS))
TextFlags = flag_group(
    "TextFlags",
    take(
        CorpusConfig,
        *("source", "subset", "revision", "hub_split", "text_field", "document_separator", "split"),
        *("held_out_fraction", "packing", "block_length", "seed", "shuffle_buffer"),
        renamed={"source": "corpus", "revision": "corpus_revision"},
    ),
)
RuleFlags = flag_group("RuleFlags", take(TokenRules))

ModelGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=ModelFlags)]
TextGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TextFlags)]
RuleGroup: TypeAlias = Annotated[
    FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=RuleFlags, name="token rules")
]


@dataclass(frozen=True, kw_only=True)
class ActivationFlags:
    """Which model reads which text, and which tokens are kept."""

    model: ModelGroup = field(default_factory=ModelFlags)
    """The language model, and where its activations are read."""
    text: TextGroup = field(default_factory=TextFlags)
    """The text that it reads."""
    rules: RuleGroup = field(default_factory=RuleFlags)
    """Which tokens are left out."""

    @property
    def device(self) -> str:
        return Computation(**self.model.given(Computation)).device

    @property
    def model_name(self) -> str:
        return str(self.model.given(ActivationConfig).get("model", ActivationConfig.model))

    def activation_config(self, **defaults: Any) -> ActivationConfig:
        """What the flags ask for; `defaults` stand in for fields whose flags were not given."""
        return ActivationConfig(
            **{"hook_points": DEFAULT_LAYERS} | defaults | self.model.given(ActivationConfig),
            corpus=CorpusConfig(**self.text.given(CorpusConfig)),
            rules=TokenRules(**self.rules.given(TokenRules)),
        )
