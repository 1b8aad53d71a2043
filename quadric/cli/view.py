"""`quadric view`: a site in the browser, served to this machine alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
        from quadric.cli.site import Site
        from quadric.runs.folder import autoencoder_folder
        from quadric.runs.viewing import needs_site, view

        if needs_site(self.site):
            if self.name is not None:
                autoencoder_folder(self.site, self.name)  # raises for a wrong name, before minutes of work
            Site(runs=(self.site,), out=self.site / "site").run()
        view(self.site, name=self.name, latent=self.latent, port=self.port, open_browser=self.open)
        return 0
