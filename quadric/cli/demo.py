"""`quadric demo`: the embedded default, end to end."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train on the embedded language model and text, and make a site that shows every latent, in minutes.

    What is there already is not made again: stopped, the same command goes on, and a second call is over at once.

    Example: quadric demo --out runs/demo
    """

    out: Path = Path("runs/demo")
    """Folder for everything that is made."""

    def run(self) -> int:
        found = _remembered(self.out) or self._made()
        print("512 latents on the residual stream of smollm2 into layer 15. Three worth a look:")
        for each in found:
            print(f"  {each['latent']:>4}  {each['label']}  ({each['shape']}, importance {each['importance']:.1f}×)")
        at = f" --latent {found[0]['latent']}" if found else ""
        print(
            f"\nSee them:       quadric view {self.out}{at}\nHow good is it? quadric evaluate {self.out}\n"
            f"Weights alone:  quadric report {self.out}"
        )
        return 0

    def _made(self) -> list[dict[str, Any]]:
        from quadric.activations.models import preparation
        from quadric.cli.counted_progress import part_progress
        from quadric.runs.demonstration import PARTS, default_demonstration, demonstrate

        if (first := preparation("smollm2")) is not None:
            print(first, file=sys.stderr)
        try:
            with part_progress(PARTS) as show:
                found = demonstrate(self.out, default_demonstration(self.out), show)
        except KeyboardInterrupt:
            print(f"\nwhat is in {self.out} stays valid; the same command goes on", file=sys.stderr)
            raise
        return [each._asdict() for each in found]


def _remembered(folder: Path) -> list[dict[str, Any]] | None:
    """What a finished demo found; read here so that a second call is over at once."""
    summary, site = folder / "demo.json", folder / "site" / "data" / "site.json"
    if not (summary.is_file() and site.is_file()):
        return None
    found: list[dict[str, Any]] = json.loads(summary.read_text())
    return found
