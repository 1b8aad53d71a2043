"""The Python blocks of the guides run in the order in which they stand, and print what they promise."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from quadric.cli.probe import Data, Probe
from quadric.studies.probing.catalogue import IDENTICAL

DOCS = Path(__file__).parents[2] / "docs"


def geometry(names: dict[str, Any], printed: str) -> None:
    assert names["radii"].numel() > 0
    assert printed


def python(names: dict[str, Any], printed: str) -> None:
    assert "composite with 24 latents" in printed
    assert "http://127.0.0.1:" in printed
    assert Path("site/index.html").is_file()


def steering(names: dict[str, Any], printed: str) -> None:
    assert printed.startswith("Latent 3 of 24")
    assert {row.method for row in names["curve"].rows} >= {"none", "quadric", "random quadric"}
    assert all(row.hellinger > 0 for row in names["curve"].rows if row.method == "quadric")
    latent, x = names["latent"], names["x"]
    assert float((latent.value(names["moved"], norms=x.norm(dim=1)) - 0.5).abs().max()) < 1e-4
    assert names["steered"].shape[1] <= 11


def probing(names: dict[str, Any], printed: str) -> None:
    shown = [line.rsplit(" ", 1)[0] for line in printed.splitlines()]
    assert shown == ["ours: latents 1", "ours: latents 2", "ours: latents 5"]


@pytest.mark.parametrize(("guide", "n_blocks"), [(geometry, 7), (python, 6), (steering, 4), (probing, 1)])
def test_the_examples_run(
    guide: Any, n_blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / f"{guide.__name__}.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= n_blocks
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    guide(names, capsys.readouterr().out)


def test_every_flag_and_every_copy_is_named() -> None:
    text = (DOCS / "probing.md").read_text(encoding="utf-8")
    flags = {each.name for part in (Probe, Data) for each in fields(part)} - {"run_folders", "data"}
    assert [flag for flag in sorted(flags) if f"--{flag.replace('_', '-')}" not in text] == []
    assert [name for pair in IDENTICAL.items() for name in pair if name not in text] == []
