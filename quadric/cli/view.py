"""`quadric view`: a site in the browser, served to this machine alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class View:
    """Serve a site on the loopback address and open it in the browser; Ctrl-C ends it.

    Example: quadric view runs/demo
    """

    site: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SITE_OR_RUN")]
    """Folder made by quadric site, or a run that holds one."""
    port: int = 8417
    """Port to listen on; 0 takes any free one."""
    open: bool = True
    """Open the browser."""

    def run(self) -> int:
        import webbrowser

        from quadric.site.serve import address_of, site_folder, site_server

        with site_server(site_folder(self.site), self.port) as server:
            address = address_of(server)
            print(f"{self.site} is at {address}  (Ctrl-C ends it)", flush=True)
            if self.open:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
        return 0
