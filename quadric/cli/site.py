"""`quadric site`: a static site about one or several runs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from quadric.autoencoders import BilinearAutoencoder
    from quadric.evidence import Evidence
    from quadric.site.export import Exhibit

BATCH_TOKENS = 4096
DEFAULT_TOKENS = 200_000
DEFAULT_POINTS = 2000


@dataclass(frozen=True, kw_only=True)
class Site:
    """Write a static site that shows every latent of some runs: no server, no network, any host.

    What data says about the latents is collected first where RUN/evidence does not hold it yet; a killed collection
    goes on when the same command is given again.

    Example: quadric site runs/demo --out site
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, or folders made by save_pretrained."""
    out: Path
    """Folder of the site; an earlier site there is replaced."""
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
        writer.check_replaceable(self.out)
        writer.check_viewer_built(writer.STATIC)
        exhibits = self._exhibits()
        with part_progress() as show:
            manifest = build_site(
                exhibits,
                self.out,
                title=self.title,
                with_map=self.map,
                limits=HostingLimits() if self.hosting_limits else None,
                static=writer.STATIC,
                on_progress=show,
            )
        n_latents = sum(exhibit.autoencoder.n_latents for exhibit in exhibits)
        size = sum(path.stat().st_size for path in self.out.rglob("*") if path.is_file())
        names = ", ".join(entry.name for entry in manifest.dictionaries)
        print(f"Wrote {self.out}: {n_latents:,} latents of {names}, {size / 1e6:,.1f} MB.")
        for text in manifest.texts:
            if text.attribution:
                print(f"Text {text.name}: {text.attribution}.")
        return 0

    def _check(self) -> None:
        if not self.runs:
            raise ValueError("no run is named; give at least one folder, e.g. quadric site runs/demo --out site")
        for name in ("tokens", "points"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise ValueError(f"{name}={value} is too few to show anything; give at least 2")

    def _exhibits(self) -> list["Exhibit"]:
        from quadric.autoencoders import load_pretrained
        from quadric.geometry.dictionary import require_bilinear
        from quadric.run_folder import autoencoder_folder, autoencoder_folders, evidence_folder
        from quadric.site.export import Exhibit, unused_name

        exhibits: list[Exhibit] = []
        for run in self.runs:
            folders = autoencoder_folders(run)
            if not folders:
                autoencoder_folder(run)  # says what is missing
            for name, folder in folders.items():
                autoencoder = require_bilinear(load_pretrained(folder))
                evidence = self._evidence(name, autoencoder, evidence_folder(run, name))
                exhibits.append(
                    Exhibit(
                        name=unused_name(name, {exhibit.name for exhibit in exhibits}),
                        autoencoder=autoencoder,
                        evidence=evidence,
                        source=str(run),
                        source_autoencoder=name if len(folders) > 1 else None,
                    )
                )
        return exhibits

    def _evidence(self, name: str, autoencoder: "BilinearAutoencoder", folder: Path) -> "Evidence":
        from quadric.evidence import Evidence, weights_sha256
        from quadric.evidence.storage import has_evidence

        if has_evidence(folder):
            evidence = Evidence.load(folder)
            why = self._outdated(evidence, weights_sha256(autoencoder))
            if why is None:
                return evidence
            print(f"{folder} {why}; collecting anew", file=sys.stderr)
        return self._collected(name, autoencoder, folder)

    def _outdated(self, evidence: "Evidence", weights: str) -> str | None:
        if evidence.weights_sha256 != weights:
            return "is about other weights"
        if self.points is not None and evidence.settings.n_points != self.points:
            return f"has {evidence.settings.n_points} points a latent"
        if self.tokens is not None and evidence.n_tokens != self.tokens and not evidence.notes:
            return f"is of {evidence.n_tokens:,} tokens"
        return None

    def _collected(self, name: str, autoencoder: "BilinearAutoencoder", folder: Path) -> "Evidence":
        from quadric.activations import ActivationStream
        from quadric.cli.token_progress import token_progress
        from quadric.evidence import EvidenceSettings, collect, memory_need, text_behind
        from quadric.evidence.opening import open_cached, open_live

        settings = EvidenceSettings(n_points=self.points or DEFAULT_POINTS)
        tokens = self.tokens or DEFAULT_TOKENS
        need = memory_need(
            d_model=autoencoder.d_model,
            n_latents=autoencoder.n_latents,
            n_hidden=autoencoder.n_hidden,
            n_tokens=tokens,
            batch_tokens=BATCH_TOKENS,
            settings=settings,
        )
        print(
            f"{name}: scoring up to {tokens:,} tokens; at most {need.peak / 1e9:.1f} GB of memory beside the model, "
            f"{need.result / 1e9:.2f} GB on disk in {folder}; the time left is shown from the second batch on",
            file=sys.stderr,
        )
        own = autoencoder.provenance
        stream: ActivationStream
        if self.cache is None:
            stream = open_live(own, model=self.model, corpus=self.corpus, batch_tokens=BATCH_TOKENS, device=self.device)
        else:
            stream = open_cached(own, self.cache, BATCH_TOKENS)
        text = text_behind(stream, self.model)
        with token_progress(f"evidence {name}") as show:
            return collect(autoencoder, stream, folder, n_tokens=tokens, settings=settings, text=text, on_progress=show)
