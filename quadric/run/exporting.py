"""`quadric.export`: a dictionary, or what data says about it, in the format of another tool."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from quadric._io.progress import Progress, progress_bar
from quadric._io.records import check_choice, check_positive
from quadric.data import ActivationCache
from quadric.data.sources import as_activations
from quadric.data.storage import NAME as MANIFEST
from quadric.evidence import Evidence, open_live, text_behind
from quadric.evidence.text import length_of, text_of
from quadric.interop import delphi, neuronpedia, saebench, saelens_format
from quadric.interop.export_folder import check_replaceable, read_record, replaced_folder
from quadric.interop.passes import Reading, Side
from quadric.interop.reading import read_dictionary
from quadric.model import Dictionary
from quadric.model.storage import weights_sha256
from quadric.run.evidence import BATCH_TOKENS, DEFAULT_TOKENS, evidence_of_run
from quadric.run.folder import autoencoder_folder, local_folder

Target = Literal["saelens", "saebench", "neuronpedia", "delphi"]
TARGETS: tuple[str, ...] = get_args(Target)
OF_DATA = ("evidence", "activations", "side", "model", "corpus", "device")
OPTIONS: dict[str, tuple[str, ...]] = {
    "saelens": ("model_name",),
    "saebench": ("model_name",),
    "neuronpedia": ("model_name", *OF_DATA, "creator"),
    "delphi": ("model_name", *OF_DATA, "tokens", "quantile"),
}
"""What each target makes use of; other options are refused."""
ACTIVATIONS = "activations"
"""Where a demo keeps the activations that its evidence comes from."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and how to use it."""

    to: str
    folder: Path
    files: tuple[str, ...]
    """Relative to the folder."""
    load: str
    """Lines of Python, or a sentence where no Python loads it."""


class _Source(NamedTuple):
    autoencoder: Dictionary
    run: Path | None
    evidence: Evidence | None


def export(
    source: str | Path | Dictionary,
    *,
    to: Target,
    out: str | Path,
    name: str | None = None,
    model_name: str | None = None,
    evidence: Evidence | None = None,
    activations: Any = None,
    tokens: int | None = None,
    quantile: float | None = None,
    side: Side | None = None,
    creator: str | None = None,
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    progress: bool | Progress = True,
) -> Exported:
    """Write a dictionary, or what data says about it, in the format of another tool: a complete folder, or nothing.

    Args:
        source: An autoencoder, a run folder, the folder of a dictionary, or a hub id.
        to: "saelens" and "saebench" get the dictionary. "neuronpedia" gets contexts, histograms and labels, and
            "delphi" the tokens on which each latent fires; both read activations.
        out: Folder to write; it may be new, empty, or an earlier export for the same tool, which is replaced.
        name: Which autoencoder, if the run has several.
        model_name: Name of the language model in that tool; by default the recorded one.
        evidence: Result of `quadric.collect_evidence`; by default the run's own. delphi needs none for a linear
            dictionary.
        activations: What the evidence was collected from: a cache folder or what `quadric.harvest` returned; by default
            the run's own cache, or else the language model reads its text again.
        tokens: How many tokens delphi gets; by default as many as the evidence has.
        quantile: delphi only: a quadratic latent fires beyond this quantile of its own values; 0.99 by default.
        side: "positive", the side of a quadratic latent with more energy and the default, or "negative".
        creator: Neuronpedia's id of the user to whom the import belongs.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Location of the text, if its recorded name is not enough to find it.
        device: Device of the language model, where it reads the text again.
        progress: Show a progress bar in terminals and notebooks; or a function to report to.

    Returns:
        The folder, its files, and the lines of Python that load it.

    Example:
        >>> quadric.export(ae, to="saelens", out="exported").files
        ('cfg.json', 'sae_weights.safetensors')
    """
    check_choice("to", to, TARGETS)
    given = {
        "model_name": model_name,
        "evidence": evidence,
        "activations": activations,
        "tokens": tokens,
        "quantile": quantile,
        "side": side,
        "creator": creator,
        "model": model,
        "corpus": corpus,
        "device": device,
    }
    given = {option: value for option, value in given.items() if value is not None}
    _check_options(to, given)
    check_replaceable(Path(out), to)
    found = _source(source, name, given.get("evidence"), with_evidence=to in ("neuronpedia", "delphi"))
    with replaced_folder(Path(out), to, weights_sha256(found.autoencoder)) as folder:
        load = _write(folder, Path(out), to, found, given, progress)
    return Exported(to=to, folder=Path(out), files=tuple(read_record(Path(out)).files), load=load)


def _check_options(to: str, given: dict[str, Any]) -> None:
    for option in given:
        if option not in OPTIONS[to]:
            users = " and ".join(each for each in TARGETS if option in OPTIONS[each])
            raise ValueError(f"{option} has no meaning for {to}; leave it out, or export to {users}")
    check_choice("side", given.get("side", "positive"), get_args(Side))
    if "tokens" in given:
        check_positive("tokens", given["tokens"])


def _source(
    source: str | Path | Dictionary, name: str | None, evidence: Evidence | None, *, with_evidence: bool
) -> _Source:
    if isinstance(source, Dictionary):
        if name is not None:
            raise ValueError(f"name={name!r} is for a run with several autoencoders; leave it out")
        return _Source(source, None, evidence)
    run = local_folder(source)
    own = autoencoder_folder(run, name)
    if evidence is None and with_evidence:
        evidence = evidence_of_run(run, own.resolve().name)
    return _Source(read_dictionary(own), run, evidence)


def _write(folder: Path, out: Path, to: str, found: _Source, given: dict[str, Any], progress: bool | Progress) -> str:
    """Write the files of one target; returns how to load them."""
    autoencoder = found.autoencoder
    names: dict[str, str | None] = {"model_name": given.get("model_name")}
    if to == "saelens":
        saelens_format.write_saelens(folder, autoencoder, **names)
        return saelens_format.load_lines(out, autoencoder)
    if to == "saebench":
        saebench.write_saebench(folder, autoencoder, **names)
        return saebench.load_lines(out)
    side = given.get("side", "positive")
    if found.evidence is None and (to == "neuronpedia" or not autoencoder.is_linear):
        raise ValueError(f"{to} needs evidence about the latents; make it with quadric site RUN, or give evidence=")
    with progress_bar(shown=progress) if isinstance(progress, bool) else nullcontext(progress) as on_progress:
        reading = _reading(found, given, on_progress)
        if to == "neuronpedia":
            assert found.evidence is not None
            creator = given.get("creator", neuronpedia.CREATOR)
            inside = neuronpedia.write_neuronpedia(
                folder, autoencoder, reading, found.evidence, side=side, creator=creator, **names
            )
            return neuronpedia.load_lines(out, inside)
        rule = _rule(found, given, side)
        hook = delphi.write_delphi(folder, autoencoder, reading, found.evidence, rule=rule, **names)
        return delphi.load_lines(out, hook)


def _rule(found: _Source, given: dict[str, Any], side: Side) -> delphi.FiringRule:
    if found.evidence is None and (unused := {"quantile", "side"} & given.keys()):
        raise ValueError(
            f"{min(unused)} is for quadratic latents; those of a linear dictionary fire above 0, leave it out"
        )
    return delphi.FiringRule(quantile=given.get("quantile", delphi.QUANTILE), side=side)


def _reading(found: _Source, given: dict[str, Any], on_progress: Progress) -> Reading:
    """The activations behind the evidence: given, in the run's cache, or from the language model."""
    activations = given.get("activations")
    if activations is None and found.run is not None and _is_own_cache(found):
        activations = found.run / ACTIVATIONS
    scored = None if found.evidence is None else found.evidence.n_tokens
    if activations is not None:
        if unused := given.keys() & {"corpus", "device"}:
            raise ValueError(f"{min(unused)} is for a language model that reads its text again; leave it out")
        data = as_activations(activations)
        n_tokens = given.get("tokens") or scored or length_of(data)
        stream = data.stream(batch_tokens=BATCH_TOKENS, seed=None)
        text = text_behind(stream, given["model"]) if "model" in given else text_of(data, stream, n_tokens)
        return Reading(stream=stream, text=text, n_tokens=n_tokens, on_progress=on_progress)
    own = found.autoencoder.provenance if found.evidence is None else found.evidence.provenance
    if own.model is None:
        raise ValueError("the dictionary records no language model to read text with; give activations=")
    live = open_live(
        own,
        model=given.get("model"),
        corpus=given.get("corpus"),
        batch_tokens=BATCH_TOKENS,
        device=given.get("device", "auto"),
    )
    n_tokens = given.get("tokens") or scored or DEFAULT_TOKENS
    return Reading(stream=live, text=text_behind(live), n_tokens=n_tokens, on_progress=on_progress)


def _is_own_cache(found: _Source) -> bool:
    """Whether the run holds a cache of the very activations that its evidence comes from."""
    assert found.run is not None
    folder = found.run / ACTIVATIONS
    if found.evidence is None or not (folder / MANIFEST).is_file():
        return False
    own = found.evidence.provenance
    return ActivationCache(folder).provenance.for_hook_point(own.hook_point or "") == own
