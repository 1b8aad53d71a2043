"""`quadric demo`: the embedded default, end to end."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Plant directions, circles and spheres in synthetic activations, train, and say which were found.

    Example: quadric demo --out runs/demo
    """

    out: Path = Path("runs/demo")
    """Folder for the trained autoencoder; an earlier one there is replaced."""
    steps: int = 400
    """Training steps."""
    seed: int = 0
    """Decides the manifolds, the tokens and the initial weights."""

    def run(self) -> int:
        from rich.console import Console
        from rich.table import Table

        from quadric.cli.progress import step_progress
        from quadric.planted_run import planted_demo

        console = Console()
        console.print(
            "Training a composite bilinear autoencoder on planted manifolds: each token is the sum of points on two "
            "of 12 manifolds in 32 dimensions, plus noise."
        )
        with step_progress(self.steps) as report:
            result = planted_demo(self.steps, self.seed, report)
        result.autoencoder.save_pretrained(self.out)
        table = Table("planted", "best latent", "energy inside its subspace", "before training")
        for found, chance in zip(result.found, result.chance, strict=True):
            table.add_row(found.manifold, str(found.latent), f"{found.inside:.0%}", f"{chance.inside:.0%}")
        console.print(table)
        console.print(
            f"Error on unseen tokens: {result.error:.3f} (0 is perfect, 1 is nothing rebuilt).\n"
            f"Saved to {self.out}; load it with: quadric.load({str(self.out)!r})"
        )
        return 0
