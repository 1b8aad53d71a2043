"""`quadric demo`: the embedded default, end to end."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadric._io.files import read_json
from quadric.cli.output import announce, announce_preparation, say, this_command


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train on the embedded language model and text, and make a site that shows every latent, in minutes.

    Nothing is made twice: after an interruption the same command continues, and a second call returns at once.

    Example: quadric demo --out runs/demo
    """

    out: Path = Path("runs/demo")
    """Folder for everything that is made."""

    def run(self) -> int:
        found = _remembered(self.out)
        if found is None:
            announce("demo", "loading the embedded model smollm2")
            found = self._made()
        say("512 latents on the residual stream of smollm2 into layer 15. Three worth a look:")
        for each in found:
            curved = "" if each.get("curvature") is None else f", {each['curvature']:.0%} curved"
            say(f"  {each['latent']:>4}  {each['label']}  ({each['shape']}{curved})")
        at = f" --latent {found[0]['latent']}" if found else ""
        command = this_command()
        say(f"\nSee them:       {command} view {self.out}{at}")
        say(f"How good is it? {command} evaluate {self.out}")
        say(f"Weights alone:  {command} report {self.out}")
        return 0

    def _made(self) -> list[dict[str, Any]]:
        from quadric.cli.progress import progress
        from quadric.run.demonstration import PARTS, default_demonstration, demonstrate

        announce_preparation("smollm2")
        try:
            with progress(PARTS) as display:
                found = demonstrate(self.out, default_demonstration(self.out), display.report)
        except KeyboardInterrupt:
            say(f"\n{self.out} stays valid; the same command continues from there", file=sys.stderr)
            raise
        return [each._asdict() for each in found]


def _remembered(folder: Path) -> list[dict[str, Any]] | None:
    """What a finished demo found; read here, without torch, so that a second call returns at once."""
    summary, site = folder / "demo.json", folder / "site" / "data" / "site.json"
    if not (summary.is_file() and site.is_file()):
        return None
    found = read_json(summary, f"delete it and run {this_command()} demo --out {folder} again")
    numbers = {"latent": int, "label": str, "shape": str, "importance": (int, float)}
    if not isinstance(found, list) or not all(_is_record(each, numbers) for each in found):
        return None  # damaged, so it is made again
    return found


def _is_record(value: object, types: dict[str, Any]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in types.items())
