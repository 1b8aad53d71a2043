"""Which library wrote a folder, and the dictionary in it.

In this order, so that the first that fits counts:

    cfg.json + sae_weights.safetensors   SAELens
    cfg.json + sae.safetensors           sparsify
    config.json + model.safetensors      the paper's authors
    config.json                          Quadric, by save_pretrained

A folder of such folders, as sparsify and the paper's authors leave them, holds one dictionary per subfolder.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from quadric.interop.reading import published, saelens, sparsify
from quadric.model import Dictionary, load_pretrained
from quadric.model.storage import CONFIG_NAME

FOREIGN_CONFIG = "cfg.json"


class Layout(NamedTuple):
    """Files that tell a library's folders, and what reads them."""

    library: str
    files: tuple[str, ...]
    read: Callable[[Path], Dictionary]


LAYOUTS = (
    Layout("SAELens", (saelens.CONFIG, saelens.WEIGHTS), saelens.read_saelens),
    Layout("sparsify", (sparsify.CONFIG, sparsify.WEIGHTS), sparsify.read_sparsify),
    Layout("the paper's authors", (published.CONFIG, published.WEIGHTS), published.read_published),
    Layout("Quadric", (CONFIG_NAME,), load_pretrained),
)


def is_dictionary(folder: Path) -> bool:
    """Whether a folder has the files of a dictionary, of any library; a run or a folder of folders has not."""
    layout = _layout(folder)
    # A training run of sparsify has a config.json of its own beside its dictionaries.
    return layout is not None and (layout.library != "Quadric" or not _inside(folder))


def dictionary_folders(folder: Path) -> dict[str, Path]:
    """Dictionaries of other libraries in the subfolders of a folder, by the name of the subfolder."""
    return {path.name: path for path in _inside(folder)}


def read_dictionary(folder: Path) -> Dictionary:
    """The dictionary in a folder, whichever library wrote it.

    Args:
        folder: Written by save_pretrained, SAELens, sparsify or the code of the paper's authors.

    Returns:
        The dictionary, in eval mode.

    Example:
        >>> quadric.TopKAutoencoder(d_model=8, n_latents=32, n_active=4).save_pretrained("dictionary")
        >>> read_dictionary(Path("dictionary"))
        TopKAutoencoder(d_model=8, n_latents=32, n_active=4)
    """
    layout = _layout(folder)
    check_complete(folder)
    return (layout.read if layout else load_pretrained)(folder)


def check_complete(folder: Path) -> None:
    """Refuse a folder of another library without its weights."""
    if (folder / FOREIGN_CONFIG).is_file() and _layout(folder) is None:
        raise FileNotFoundError(
            f"'{folder}' has a {FOREIGN_CONFIG} but no weights; copy or download {saelens.WEIGHTS} (SAELens) or "
            f"{sparsify.WEIGHTS} (sparsify) as well"
        )


def _layout(folder: Path) -> Layout | None:
    return next((each for each in LAYOUTS if all((folder / name).is_file() for name in each.files)), None)


def _inside(folder: Path) -> list[Path]:
    """Subfolders with a dictionary of another library."""
    if not folder.is_dir():
        return []
    found = ((path, _layout(path)) for path in sorted(folder.iterdir()) if path.is_dir())
    return [path for path, layout in found if layout is not None and layout.library != "Quadric"]
