"""`quadric view`: a site in the browser, served to this machine alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class View:
    """Serve a site on the loopback address and open it in the browser; Ctrl-C ends it.

    A run that has no site yet gets one first, in RUN/site.

    Example: quadric view runs/demo --latent 17
    """

    site: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SITE_OR_RUN")]
    """Folder made by quadric site, or a run."""
    latent: int | None = None
    """Open the page of this latent."""
    port: int = 8417
    """Port to listen on; 0 takes any free one."""
    open: bool = True
    """Open the browser."""

    def run(self) -> int:
        import webbrowser

        from quadric.cli.site import Site
        from quadric.runs.folder import autoencoder_folders
        from quadric.site.serve import address_of, site_folder, site_server
        from quadric.site.writer import is_site

        if self.latent is not None and self.latent < 0:
            raise ValueError(f"latent={self.latent} is negative; latents count from 0")
        own = self.site / "site"
        if self.site.is_dir() and not is_site(self.site) and not is_site(own) and autoencoder_folders(self.site):
            Site(runs=(self.site,), out=own).run()
        with site_server(site_folder(self.site), self.port) as server:
            address = address_of(server) + ("" if self.latent is None else f"#/latent/{self.latent}")
            print(f"{self.site} is at {address}  (Ctrl-C ends it)", flush=True)
            if self.open:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
        return 0
