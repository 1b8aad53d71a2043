"""The live server of a run, or of an autoencoder in memory: which dictionaries of the site it can answer for."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadric.data.identity import check_same_model
from quadric.evidence import Evidence
from quadric.explanations import Explainer
from quadric.explanations.explaining import language_model_of
from quadric.interop.reading import read_dictionary
from quadric.model import Autoencoder
from quadric.run.explaining import evidence_of_run
from quadric.run.folder import autoencoder_folders
from quadric.viewer import writer
from quadric.viewer.export import unused_name
from quadric.viewer.writer import check_viewer_built

if TYPE_CHECKING:
    from quadric.viewer.live.serving import LiveServer

PACKAGES = ("starlette", "uvicorn")
IN_MEMORY = "latents"
"""Name on its site of an autoencoder that is viewed from memory, see `export_site`."""


def live_server(
    target: str | Path | Autoencoder,
    evidence: Evidence | None,
    site: Path,
    port: int,
    *,
    model: Any = None,
    tokenizer: Any = None,
    device: str = "auto",
) -> "LiveServer":
    """Load the language model and start a live server.

    Args:
        target: A run folder, the site of a run, or an autoencoder.
        evidence: Of an autoencoder in memory.
        site: The site to serve.
        port: Port to listen on; 0 selects a free one.
        model: The language model, if it cannot be found by its recorded name.
        tokenizer: Tokenizer of a model in memory.
        device: Device of the language model.

    Returns:
        The running server.
    """
    check_live_packages()
    check_viewer_built(writer.STATIC)
    from quadric.viewer.live.serving import LiveServer
    from quadric.viewer.live.session import Session

    found = _dictionaries(target, evidence)
    loaded = language_model_of(next(iter(found.values()))[0], model, tokenizer, device)
    loaded.causal.eval()
    explainers = {}
    for name, (autoencoder, own) in found.items():
        check_same_model(loaded, autoencoder.provenance)
        explainers[name] = Explainer(autoencoder, loaded, own)
    return LiveServer(site, Session(explainers), port)


def check_live_packages() -> None:
    """Raise if the packages of the extra are missing, before anything is loaded."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise ValueError(f"a live viewer needs {' and '.join(missing)}; install with: pip install 'quadric[live]'")


Dictionary = tuple[Autoencoder, Evidence | None]


def _dictionaries(target: str | Path | Autoencoder, evidence: Evidence | None) -> dict[str, Dictionary]:
    """The dictionaries that can be asked, by their names on the site."""
    if isinstance(target, Autoencoder):
        return {IN_MEMORY: (target, evidence)}
    run = Path(target)
    folders = autoencoder_folders(run) or autoencoder_folders(run.resolve().parent)
    if not folders:
        raise ValueError(f"'{run}' is a site without its run, which holds the weights; give the run folder for --live")
    run = run if autoencoder_folders(run) else run.resolve().parent
    found: dict[str, Dictionary] = {}
    for name, folder in folders.items():
        found[unused_name(name, set(found))] = read_dictionary(folder), evidence_of_run(run, name)
    return found
