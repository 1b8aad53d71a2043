"""`quadric demo`: the embedded default, end to end."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train on the embedded language model and text, and make a site that shows every latent; about five minutes.

    What is there already is not made again: stopped, the same command goes on, and a second call is over at once.

    Example: quadric demo --out runs/demo
    """

    out: Path = Path("runs/demo")
    """Folder for everything that is made."""

    def run(self) -> int:
        from quadric.activations.models import preparation
        from quadric.cli.counted_progress import part_progress
        from quadric.demonstration import PARTS, default_demonstration, demonstrate

        if (first := preparation("smollm2")) is not None:
            print(first, file=sys.stderr)
        wanted = default_demonstration(self.out)
        try:
            with part_progress(PARTS) as show:
                found = demonstrate(self.out, wanted, show)
        except KeyboardInterrupt:
            print(f"\nwhat is in {self.out} stays valid; the same command goes on", file=sys.stderr)
            raise
        (autoencoder,) = wanted.config.autoencoders
        print(
            f"Trained {autoencoder.n_latents} latents on the residual stream of smollm2 ({autoencoder.hook_point}). "
            "Three worth a look:"
        )
        for each in found:
            print(f"  {each.latent:>4}  {each.label}  ({each.shape}, importance {each.importance:.1f}×)")
        if found:
            print(f"\nSee them:      quadric view {self.out} --latent {found[0].latent}")
        print(f"How good is it? quadric evaluate {self.out}\nWeights alone:  quadric report {self.out}")
        return 0
