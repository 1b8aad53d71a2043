"""`quadric view`: a site in the browser, served to this machine alone."""

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quadric.cli.flags import Command, OptionalInt, OptionalText
from quadric.cli.output import announce


@dataclass(frozen=True, kw_only=True)
class View(Command):
    """Serve a site on the loopback address and open it in the browser; Ctrl-C stops it.

    For a run that has no site yet, one is made first, in RUN/site.

    With --live the language model is loaded too: a page to try texts, and a panel to steer on every latent's page.

    Example: quadric view runs/demo --latent 17
             quadric view runs/demo --live
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
    live: bool = False
    """Load the language model, so that the page can explain and steer text."""
    model: OptionalText = None
    """With --live: location of the language model, if its recorded name is not enough to find it."""
    device: str = "auto"
    """With --live: cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, else the CPU."""

    def run(self) -> int:
        from quadric.cli.site import Site
        from quadric.run.folder import autoencoder_folder
        from quadric.run.viewing import needs_site, view

        if needs_site(self.site):
            if self.name is not None:
                autoencoder_folder(self.site, self.name)  # raises for a wrong name, before minutes of work
            Site(runs=(self.site,), out=self.site / "site").run()
        if self.live:
            announce("view", f"loading {self.site} and its language model")
        view(self.site, open_browser=self.open, **self.options("site", "open"))
        # While it exits, Python searches all objects for cycles several times: two seconds with a language model.
        gc.freeze()
        return 0
