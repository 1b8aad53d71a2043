"""`quadric.export`: a dictionary, or what data says about it, in the format of another tool."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from quadric.autoencoders import Autoencoder
from quadric.autoencoders.checks import check_choice
from quadric.autoencoders.io import weights_sha256
from quadric.interop.writing.folders import check_replaceable, read_record, replaced_folder
from quadric.interop.writing.saelens import load_lines, write_saelens
from quadric.runs.folder import load

Target = Literal["saelens"]
TARGETS: tuple[str, ...] = get_args(Target)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and how to use it."""

    to: str
    folder: Path
    files: tuple[str, ...]
    """Relative to the folder."""
    load: str
    """Lines of Python that load it."""


def export(
    source: str | Path | Autoencoder,
    *,
    to: Target,
    out: str | Path,
    name: str | None = None,
    model_name: str | None = None,
) -> Exported:
    """Write a dictionary in the format of another tool: a complete folder, or nothing.

    Args:
        source: An autoencoder, a run folder, a folder made by save_pretrained, or a hub id.
        to: The tool: "saelens".
        out: Folder to write; it may be new, empty, or an earlier export for the same tool, which is replaced.
        name: Which autoencoder, if the run has several.
        model_name: Name of the language model in that tool; by default the recorded one.

    Returns:
        The folder, its files, and the lines of Python that load it.

    Example:
        >>> quadric.export(ae, to="saelens", out="exported").files
        ('cfg.json', 'sae_weights.safetensors')
    """
    check_choice("to", to, TARGETS)
    check_replaceable(Path(out), to)
    autoencoder = source if isinstance(source, Autoencoder) else load(source, name=name)
    with replaced_folder(Path(out), to, weights_sha256(autoencoder)) as folder:
        write_saelens(folder, autoencoder, model_name=model_name)
    return Exported(to=to, folder=Path(out), files=tuple(read_record(Path(out)).files), load=load_lines(Path(out), autoencoder))
