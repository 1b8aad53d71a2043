"""`quadric demo`: the embedded default, end to end."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train on planted manifolds and say what was found."""

    steps: int = 400
    """Training steps."""

    def run(self) -> int:
        return 0
