"""`quadric site`: a static site about one or several runs."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from quadric.cli.flags import ModelCommand, OptionalInt, OptionalPath, OptionalText, Texts
from quadric.cli.output import announce, say


@dataclass(frozen=True, kw_only=True)
class Site(ModelCommand):
    """Write a static site that shows every latent of some runs: no server, no network, any host.

    Evidence about the latents (what data activates them) is collected first where RUN/evidence lacks it; the same
    command continues a collection that was interrupted.

    Example: quadric site runs/demo --out site
             quadric site runs/a runs/b --out site --cache runs/harvest --tokens 400000
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, or folders made by save_pretrained."""
    name: Texts = ()
    """Show only the autoencoders of these names; all of every run if left out."""
    out: OptionalPath = None
    """Folder of the site; an earlier site there is replaced. By default RUN/site, where quadric view RUN finds it."""
    title: str = "Quadric"
    """Title of the site."""
    tokens: OptionalInt = None
    """Tokens to read; by default stored evidence is used, or 200000 if there is none."""
    points: OptionalInt = None
    """Points per latent; by default stored evidence is used, or 2000 if there is none."""
    cache: OptionalPath = None
    """Folder of `quadric harvest` with the activations; without it the language model reads its text again."""
    corpus: OptionalText = None
    """Text to show; by default the text that the autoencoder was trained on."""
    map: bool = True
    """A map of all latents by UMAP; needs umap-learn (pip install 'quadric[site]')."""
    clusters: int = 100
    """Latents of each autoencoder, best first, to search for clusters of points and to test for cones, interpolations
    and subsets; 0 for none. Needs quadric[site]."""
    compare: bool = True
    """Match the latents of every two autoencoders of one hook point; takes long for many large ones."""
    hosting_limits: bool = True
    """Refuse a site that exceeds the limits of free static hosts: 20,000 files, 25 MiB per file, 1 GB in all."""

    def run(self) -> int:
        if not self.runs:
            raise ValueError("no run is named; give at least one folder, e.g. quadric site runs/demo --out site")
        if self.clusters < 0:
            raise ValueError(f"--clusters {self.clusters} is negative; give how many latents to search, or 0 for none")
        if self.out is None and len(self.runs) > 1:
            raise ValueError("a site of several runs belongs to none of them; name its folder with --out")
        announce("site", f"loading {', '.join(map(str, self.runs))}")
        from quadric.cli.progress import progress
        from quadric.run.evidence import WantedEvidence
        from quadric.run.sites import site_of_runs
        from quadric.viewer.writer import HostingLimits

        out = self.out or self.runs[0] / "site"
        wanted = WantedEvidence(**{field.name: getattr(self, field.name) for field in fields(WantedEvidence)})
        with progress() as display:
            manifest = site_of_runs(
                self.runs,
                out,
                wanted,
                names=self.name,
                title=self.title,
                with_map=self.map,
                clustered=self.clusters,
                compared=self.compare,
                limits=HostingLimits() if self.hosting_limits else None,
                on_progress=display.report,
                on_note=lambda note: say(note, file=sys.stderr),
            )
        n_latents = sum(entry.n_latents for entry in manifest.dictionaries)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        names = [entry.name for entry in manifest.dictionaries]
        say(f"Wrote {out}: {n_latents:,} latents of {', '.join(names)}, {size / 1e6:,.1f} MB.")
        for text in manifest.texts:
            if text.attribution:
                say(f"Text {text.name}: {text.attribution}.")
        return 0
