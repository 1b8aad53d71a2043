"""A dictionary as a folder that `quadric.interop.saebench.load` reads: as save_pretrained writes it, and its place."""

from pathlib import Path

from quadric._io.files import write_json
from quadric.interop.saebench import RECORD, bench_record
from quadric.model import Dictionary


def write_saebench(folder: Path, autoencoder: Dictionary, *, model_name: str | None = None) -> None:
    """Write the files that `quadric.interop.saebench.load` reads.

    Args:
        folder: Where to.
        autoencoder: A bilinear or linear autoencoder.
        model_name: Name of the language model in TransformerLens; by default the recorded one.
    """
    record = bench_record(autoencoder, model_name)
    autoencoder.save_pretrained(folder)
    write_json(folder / RECORD, record)


def load_lines(folder: Path) -> str:
    """Lines of Python that load the folder."""
    return f"from quadric.interop.saebench import load\nselected_saes = [({folder.name!r}, load({str(folder)!r}))]"
