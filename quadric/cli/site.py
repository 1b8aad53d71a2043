"""`quadric site`: a static site about one or several runs."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Site:
    """Write a static site that shows every latent of some runs: no server, no network, any host.

    What data says about the latents is collected first where RUN/evidence does not hold it yet; a killed collection
    goes on when the same command is given again.

    Example: quadric site runs/demo --out site
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, or folders made by save_pretrained."""
    out: Path | None = None
    """Folder of the site; an earlier site there is replaced. By default RUN/site, where quadric view RUN finds it."""
    title: str = "Quadric"
    """Title of the site."""
    tokens: int | None = None
    """Tokens to score; evidence that is there already is used if left out, else 200000."""
    points: int | None = None
    """Points a latent; evidence that is there already is used if left out, else 2000."""
    cache: Path | None = None
    """Folder of `quadric harvest` with the activations; without it the language model reads its text again."""
    model: str | None = None
    """Where the language model is, if it is not a hub id or smollm2."""
    corpus: str | None = None
    """Text to show; by default the text that the autoencoder was trained on."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one."""
    map: bool = True
    """A map of all latents by UMAP; needs umap-learn (pip install 'quadric[site]')."""
    hosting_limits: bool = True
    """Refuse a site that free static hosts would not take: 20,000 files, 25 MiB a file, 1 GB in all."""

    def run(self) -> int:
        from quadric.cli.counted_progress import part_progress
        from quadric.cli.token_progress import token_progress
        from quadric.runs.evidence import WantedEvidence
        from quadric.runs.sites import site_of_runs
        from quadric.site.checking import HostingLimits

        if not self.runs:
            raise ValueError("no run is named; give at least one folder, e.g. quadric site runs/demo --out site")
        if self.out is None and len(self.runs) > 1:
            raise ValueError("a site of several runs belongs to none of them; name its folder with --out")
        out = self.out or self.runs[0] / "site"
        wanted = WantedEvidence(**{field.name: getattr(self, field.name) for field in fields(WantedEvidence)})
        with part_progress() as show:
            manifest = site_of_runs(
                self.runs,
                out,
                wanted,
                title=self.title,
                with_map=self.map,
                limits=HostingLimits() if self.hosting_limits else None,
                progress=token_progress,
                on_progress=show,
                on_note=lambda note: print(note, file=sys.stderr),
            )
        n_latents = sum(entry.n_latents for entry in manifest.dictionaries)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        names = [entry.name for entry in manifest.dictionaries]
        print(f"Wrote {out}: {n_latents:,} latents of {', '.join(names)}, {size / 1e6:,.1f} MB.")
        for text in manifest.texts:
            if text.attribution:
                print(f"Text {text.name}: {text.attribution}.")
        return 0
