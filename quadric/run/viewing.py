"""`quadric.view` opens the viewer for a run, a site, or an autoencoder with its evidence; texts explained by a run."""

import tempfile
import warnings
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from quadric._io.files import read_json
from quadric._io.own_files import file_record
from quadric._io.terminal import printable
from quadric.data.provenance import check_same_model
from quadric.evidence import Evidence
from quadric.explanations import Explainer
from quadric.explanations.explaining import language_model_of
from quadric.interop.reading import read_dictionary
from quadric.model import Dictionary
from quadric.model.storage import check_weights
from quadric.run.evidence import WantedEvidence, evidence_of_run
from quadric.run.folder import RUN_CONFIG_NAME, autoencoder_folder, autoencoder_folders, chosen_names, local_folder
from quadric.run.sites import SITE, export_site, site_of_runs
from quadric.viewer import writer
from quadric.viewer.export import unused_name
from quadric.viewer.serve import DEFAULT_PORT, SiteServer, site_folder
from quadric.viewer.writer import MANIFEST, check_viewer_built, is_site

if TYPE_CHECKING:
    from quadric.viewer.live.api import Api

IN_MEMORY = "latents"
"""Name on its site of an autoencoder that is viewed from memory, see `export_site`."""


class Viewer:
    """A running server of a site, reachable from this machine only; `close()` or leaving a `with` block stops it."""

    def __init__(self, server: SiteServer, page: str, scratch: tempfile.TemporaryDirectory[str] | None) -> None:
        self.address = server.address + page
        self._server, self._scratch = server, scratch

    def __repr__(self) -> str:
        return f"Viewer({self.address})"

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            while not self._server.ended.wait(timeout=0.5):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def view(
    target: str | Path | Dictionary,
    evidence: Evidence | None = None,
    *,
    name: str | None = None,
    latent: int | None = None,
    port: int = DEFAULT_PORT,
    open_browser: bool = True,
    wait: bool = True,
    live: bool = False,
    model: Any = None,
    tokenizer: Any = None,
    device: str = "auto",
) -> Viewer:
    """Serve the viewer on the loopback address and open it in the browser.

    Args:
        target: A run folder, a site folder, or an autoencoder. If a run has no site yet, it is built first.
        evidence: Result of `quadric.collect_evidence`, if the target is an autoencoder.
        name: Dictionary to open, if the site shows several.
        latent: Latent whose page to open.
        port: Port to listen on; 0 selects a free one.
        open_browser: Open the browser.
        wait: Serve until Ctrl-C. `False` returns at once, for notebooks; call `close()` on the result.
        live: Load the language model too, so that the page can explain and steer text.
        model: The language model of a live viewer, if it cannot be found by its recorded name; also a `transformers`
            model in memory.
        tokenizer: Tokenizer of a model in memory.
        device: Device of the language model.

    Returns:
        The `Viewer`, whose `address` can be opened in a browser on this machine.

    Example:
        >>> site = quadric.export_site(ae, evidence, "site", with_map=False)
        >>> with quadric.view(site, latent=3, wait=False, open_browser=False, port=0) as viewer:
        ...     viewer.address
        'http://127.0.0.1:.../#/latent/3'
    """
    if latent is not None and latent < 0:
        raise ValueError(f"latent={latent} is negative; latents are numbered from 0")
    if not live and (model is not None or tokenizer is not None):
        raise ValueError("model= and tokenizer= are for a live viewer; give live=True (--live), or leave them out")
    folder, scratch = _site(target, evidence)
    page = route(folder, name, latent)
    api = _live_api(target, evidence, model, tokenizer, device) if live else None
    viewer = Viewer(SiteServer(folder, port, api), page, scratch)
    try:
        if open_browser:
            webbrowser.open(viewer.address)
        if wait:
            shown = "The viewer" if isinstance(target, Dictionary) else target
            print(f"{printable(str(shown))} is at {viewer.address}  (Ctrl-C stops it)", flush=True)
            viewer.wait()
    except KeyboardInterrupt:  # before the wait has begun
        viewer.close()
        if not wait:
            raise
    return viewer


def _live_api(
    target: str | Path | Dictionary, evidence: Evidence | None, model: Any, tokenizer: Any, device: str
) -> "Api":
    """Load the language model, and the dictionaries of the site that can be asked about it."""
    check_viewer_built(writer.STATIC)
    from quadric.viewer.live.api import Api
    from quadric.viewer.live.session import Session

    found = _dictionaries(target, evidence)
    loaded = language_model_of(next(iter(found.values()))[0], model, tokenizer, device)
    loaded.causal.eval()
    explainers = {}
    for name, (autoencoder, evidence_of_it) in found.items():
        check_same_model(loaded, autoencoder.provenance)
        explainers[name] = Explainer(autoencoder, loaded, evidence_of_it)
    return Api(Session(explainers))


def _dictionaries(
    target: str | Path | Dictionary, evidence: Evidence | None
) -> dict[str, tuple[Dictionary, Evidence | None]]:
    """The dictionaries that can be asked, by their names on the site."""
    if isinstance(target, Dictionary):
        return {IN_MEMORY: (target, evidence)}
    run = Path(target)
    folders = autoencoder_folders(run) or autoencoder_folders(run.resolve().parent)
    if not folders:
        raise ValueError(f"'{run}' is a site without its run, which holds the weights; give the run folder for --live")
    run = run if autoencoder_folders(run) else run.resolve().parent
    found: dict[str, tuple[Dictionary, Evidence | None]] = {}
    for name, folder in folders.items():
        found[unused_name(name, set(found))] = read_dictionary(folder), evidence_of_run(run, name)
    return found


def _site(
    target: str | Path | Dictionary, evidence: Evidence | None
) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """The folder to serve, and the temporary folder to delete afterwards if the site was built for this viewer."""
    if isinstance(target, Dictionary):
        if evidence is None:
            raise ValueError("the viewer cannot show an autoencoder without data; give its evidence as well")
        evidence.check_weights(target)
        scratch = tempfile.TemporaryDirectory(prefix="quadric-site-")
        return export_site(target, evidence, Path(scratch.name) / SITE), scratch
    if evidence is not None:
        raise ValueError(f"evidence= is for an autoencoder; '{target}' is a folder with its own evidence, leave it out")
    folder = Path(target)
    own = folder / SITE
    if needs_site(folder):
        site_of_runs([folder], own, WantedEvidence())
    site = site_folder(folder)
    _check_current(site)
    return site, None


def _check_current(site: Path) -> None:
    """Refuse the site of a run that shows weights which the run no longer has, since it was trained further."""
    run, record = site.resolve().parent, file_record(site)
    folders = autoencoder_folders(run) if site.name == SITE else {}
    if folders and not record.files:
        warnings.warn(f"'{site}' does not say which weights it shows; delete it and make it again", stacklevel=4)
    for name, folder in folders.items():
        if (shown := record.weights.get(unused_name(name, set()))) is not None:
            check_weights(shown, read_dictionary(folder), f"'{site}'", f"make it again: quadric site {run}")


def needs_site(folder: Path) -> bool:
    """Whether the folder is a run without a site, for which one can be built; a run without weights is an error."""
    if not folder.is_dir() or is_site(folder) or is_site(folder / SITE):
        return False
    if (folder / RUN_CONFIG_NAME).is_file():
        chosen_names(folder)  # raises, with the remedy, if there is nothing to show yet
    return bool(autoencoder_folders(folder))


def _dictionary_names(folder: Path) -> list[str]:
    manifest = read_json(folder / MANIFEST, "export the site again")
    found = manifest.get("dictionaries") if isinstance(manifest, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) and "name" in each for each in found):
        raise ValueError(f"{folder / MANIFEST} is damaged; export the site again with quadric site")
    return [str(each["name"]) for each in found]


def route(folder: Path, name: str | None, latent: int | None) -> str:
    """The page to open: a latent, the map of one autoencoder, or the start page."""
    if name is not None:
        names = _dictionary_names(folder)
        if name not in names:
            raise ValueError(f"name={name!r} is not in the site '{folder}'; choose from: {', '.join(names)}")
    parts = [] if name is None else [quote(name, safe="")]
    parts += [] if latent is None else ["latent", str(latent)]
    return f"#/{'/'.join(parts)}" if parts else ""


def run_explainer(
    run: str | Path, *, name: str | None = None, model: str | None = None, device: str = "auto"
) -> Explainer:
    """Explain texts by one dictionary of a run, with the run's evidence if there is any; see `quadric.explain`."""
    folder = local_folder(run)
    own = autoencoder_folder(folder, name)
    autoencoder = read_dictionary(own)
    loaded = language_model_of(autoencoder, model, None, device)
    check_same_model(loaded, autoencoder.provenance)
    return Explainer(autoencoder, loaded, evidence_of_run(folder, own.resolve().name))
