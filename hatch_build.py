"""Build hook: builds the viewer's assets when the package is built or installed from source."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent / "web"))
import build_assets


class WebBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Installs Node only if the assets are out of date and the system has no Node."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if build_assets.is_fresh() or build_assets.system_node() else [build_assets.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build_assets.ensure_built()
        except (OSError, subprocess.CalledProcessError) as problem:
            if os.environ.get("QUADRIC_REQUIRE_WEB") == "1":
                raise
            self.app.display_warning(
                f"The viewer could not be built ({problem}). The library works without it; "
                "quadric view explains how to build it."
            )
