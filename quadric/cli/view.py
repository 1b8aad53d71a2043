"""`quadric view`: a site in the browser, served to this machine alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import tyro

from quadric.cli.flags import OptionalInt, OptionalText


@dataclass(frozen=True, kw_only=True)
class View:
    """Serve a site on the loopback address and open it in the browser; Ctrl-C stops it.

    For a run that has no site yet, one is made first, in RUN/site.

    Example: quadric view runs/demo --latent 17
             quadric view runs/grid --name resid_pre.15-composite-k1024-density0.002-alpha0.3-seed0
    """

    site: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SITE_OR_RUN")]
    """Folder made by quadric site, or a run."""
    name: OptionalText = None
    """Open this autoencoder, if the site shows several."""
    latent: OptionalInt = None
    """Open the page of this latent."""
    port: int = 8417
    """Port to listen on; 0 is any free one."""
    open: bool = True
    """Open the browser."""

    def run(self) -> int:
        import webbrowser

        from quadric.cli.site import Site
        from quadric.runs.folder import autoencoder_folder, autoencoder_folders
        from quadric.site.serve import address_of, site_folder, site_server
        from quadric.site.writer import is_site

        if self.latent is not None and self.latent < 0:
            raise ValueError(f"latent={self.latent} is negative; latents count from 0")
        own = self.site / "site"
        if self.site.is_dir() and not is_site(self.site) and not is_site(own) and autoencoder_folders(self.site):
            if self.name is not None:
                autoencoder_folder(self.site, self.name)  # raises for a wrong name, before minutes of work
            Site(runs=(self.site,), out=own).run()
        folder = site_folder(self.site)
        route = self._route(folder)
        with site_server(folder, self.port) as server:
            address = address_of(server) + route
            print(f"{self.site} is at {address}  (Ctrl-C stops it)", flush=True)
            if self.open:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
        return 0

    def _route(self, folder: Path) -> str:
        """The page to open: a latent, the map of one autoencoder, or the start page."""
        parts = [] if self.name is None else [quote(self._known_name(folder), safe="")]
        parts += [] if self.latent is None else ["latent", str(self.latent)]
        return f"#/{'/'.join(parts)}" if parts else ""

    def _known_name(self, folder: Path) -> str:
        names = [each["name"] for each in json.loads((folder / "data" / "site.json").read_bytes())["dictionaries"]]
        if self.name is None or self.name not in names:
            raise ValueError(f"name={self.name!r} is not in the site '{folder}'; choose from: {', '.join(names)}")
        return self.name
