"""`quadric site`: a static site about one or several runs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import tyro

if TYPE_CHECKING:
    from quadric.autoencoders import BilinearAutoencoder
    from quadric.cli.evidence_collection import WantedEvidence
    from quadric.site.export import Exhibit
    from quadric.site.schema import Quality


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
        from quadric.site import writer
        from quadric.site.building import build_site
        from quadric.site.checking import HostingLimits

        self._check()
        wanted = self._wanted()
        out = self.out or self.runs[0] / "site"
        writer.check_replaceable(out)
        writer.check_viewer_built(writer.STATIC)
        exhibits = self._exhibits(wanted)
        with part_progress() as show:
            manifest = build_site(
                exhibits,
                out,
                title=self.title,
                with_map=self.map,
                limits=HostingLimits() if self.hosting_limits else None,
                static=writer.STATIC,
                on_progress=show,
            )
        n_latents = sum(exhibit.autoencoder.n_latents for exhibit in exhibits)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        names = ", ".join(entry.name for entry in manifest.dictionaries)
        print(f"Wrote {out}: {n_latents:,} latents of {names}, {size / 1e6:,.1f} MB.")
        for text in manifest.texts:
            if text.attribution:
                print(f"Text {text.name}: {text.attribution}.")
        return 0

    def _check(self) -> None:
        if not self.runs:
            raise ValueError("no run is named; give at least one folder, e.g. quadric site runs/demo --out site")
        if self.out is None and len(self.runs) > 1:
            raise ValueError("a site of several runs belongs to none of them; name its folder with --out")

    def _wanted(self) -> "WantedEvidence":
        from quadric.cli import evidence_collection

        return evidence_collection.WantedEvidence(
            tokens=self.tokens,
            points=self.points,
            cache=self.cache,
            model=self.model,
            corpus=self.corpus,
            device=self.device,
        )

    def _exhibits(self, wanted: "WantedEvidence") -> list["Exhibit"]:
        from quadric.cli.evidence_collection import evidence_for
        from quadric.evidence import Job
        from quadric.run_folder import evidence_folder
        from quadric.site.export import Exhibit, unused_name

        found = [shown for run in self.runs for shown in _bilinear_autoencoders(run)]
        if not found:
            raise ValueError("none of the runs holds a bilinear autoencoder; a site shows the shapes of its latents")
        jobs = [Job(each.autoencoder, evidence_folder(each.run, each.name)) for each in found]
        exhibits: list[Exhibit] = []
        for each, evidence in zip(found, evidence_for(jobs, wanted), strict=True):
            exhibits.append(
                Exhibit(
                    name=unused_name(each.name, {exhibit.name for exhibit in exhibits}),
                    autoencoder=each.autoencoder,
                    evidence=evidence,
                    source=str(each.run),
                    source_autoencoder=None if each.alone else each.name,
                    quality=_quality(each.run, each.name),
                )
            )
        return exhibits


def _quality(run: Path, name: str) -> "Quality":
    """What quadric evaluate left in the run, if it was asked."""
    from quadric.evaluation.files import kept_in_run
    from quadric.site.schema import Quality

    found = kept_in_run(run, name) or {}
    return Quality(
        error=found.get("error"),
        density=found.get("density"),
        cross_entropy_recovered=found.get("cross_entropy_recovered_zero"),
        n_tokens=found.get("tokens"),
    )


class _Shown(NamedTuple):
    run: Path
    name: str
    autoencoder: "BilinearAutoencoder"
    alone: bool


def _bilinear_autoencoders(run: Path) -> list[_Shown]:
    from quadric.autoencoders import BilinearAutoencoder, load_pretrained
    from quadric.run_folder import autoencoder_folder, autoencoder_folders

    folders = autoencoder_folders(run)
    if not folders:
        autoencoder_folder(run)  # says what is missing
    found = []
    for name, folder in folders.items():
        autoencoder = load_pretrained(folder)
        if isinstance(autoencoder, BilinearAutoencoder):
            found.append(_Shown(run, name, autoencoder, len(folders) == 1))
        else:
            print(f"{name} is a linear baseline, whose latents have no shape; left out", file=sys.stderr)
    return found
