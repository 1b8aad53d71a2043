"""`quadric.view`: open the viewer in the browser for a run, a site, or an autoencoder with its evidence."""

import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote

from quadric._io.files import read_json
from quadric._io.terminal import printable
from quadric.evidence import Evidence
from quadric.model import Autoencoder
from quadric.run.evidence import WantedEvidence
from quadric.run.folder import RUN_CONFIG_NAME, autoencoder_folders, chosen_names
from quadric.run.sites import SITE, export_site, site_of_runs
from quadric.viewer.serve import DEFAULT_PORT, address_of, site_folder, site_server
from quadric.viewer.writer import MANIFEST, is_site

Scratch = tempfile.TemporaryDirectory[str]


@runtime_checkable
class RunningServer(Protocol):
    """A server that runs in a thread of its own: of files alone, or with the language model."""

    @property
    def address(self) -> str: ...

    def join(self, timeout: float) -> bool:
        """Wait for its end; returns whether it still runs."""
        ...

    def close(self) -> None: ...


class FileServer:
    """The server of a site's files, which needs no package beyond the standard library."""

    def __init__(self, folder: Path, port: int) -> None:
        self._server = site_server(folder, port)
        self.address = address_of(self._server)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the server; returns whether it still runs."""
        self._thread.join(timeout)
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class Viewer:
    """A running server of a site, reachable from this machine only; `close()` or leaving a `with` block stops it."""

    def __init__(self, server: RunningServer, address: str, scratch: Scratch | None) -> None:
        self.address = address
        self._server, self._scratch = server, scratch

    def __repr__(self) -> str:
        return f"Viewer({self.address})"

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            while self._server.join(timeout=0.5):
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
    target: str | Path | Autoencoder,
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
        name: Autoencoder to open, if the site shows several.
        latent: Latent whose page to open.
        port: Port to listen on; 0 selects a free one.
        open_browser: Open the browser.
        wait: Serve until Ctrl-C. `False` returns at once, for notebooks; call `close()` on the result.
        live: Load the language model too, so that the page can explain and steer text; needs `quadric[live]`.
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
    server: RunningServer
    if live:
        from quadric.run.live import live_server

        server = live_server(target, evidence, folder, port, model=model, tokenizer=tokenizer, device=device)
    else:
        server = FileServer(folder, port)
    viewer = Viewer(server, server.address + page, scratch)
    if open_browser:
        webbrowser.open(viewer.address)
    if wait:
        shown = "The viewer" if isinstance(target, Autoencoder) else target
        try:
            print(f"{printable(str(shown))} is at {viewer.address}  (Ctrl-C stops it)", flush=True)
            viewer.wait()
        except KeyboardInterrupt:  # after the line is printed and before the wait has begun
            viewer.close()
    return viewer


def _site(target: str | Path | Autoencoder, evidence: Evidence | None) -> tuple[Path, Scratch | None]:
    """The folder to serve, and the temporary folder to delete afterwards if the site was built for this viewer."""
    if isinstance(target, Autoencoder):
        if evidence is None:
            raise ValueError("the viewer cannot show an autoencoder without data; give its evidence as well")
        scratch = tempfile.TemporaryDirectory(prefix="quadric-site-")
        return export_site(target, evidence, Path(scratch.name) / SITE), scratch
    if evidence is not None:
        raise ValueError(f"evidence= is for an autoencoder; '{target}' is a folder with its own evidence, leave it out")
    folder = Path(target)
    own = folder / SITE
    if needs_site(folder):
        site_of_runs([folder], own, WantedEvidence())
    return site_folder(folder), None


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
