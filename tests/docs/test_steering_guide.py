"""The examples of docs/steering.md, run in the order in which they stand."""

import re
from pathlib import Path

import torch

GUIDE = Path(__file__).parents[2] / "docs" / "steering.md"


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert capsys.readouterr().out.startswith("Latent 3 of 24")
    assert {row.method for row in names["curve"].rows} >= {"none", "quadric", "random quadric"}
    assert all(row.hellinger > 0 for row in names["curve"].rows if row.method == "quadric")
    latent, x = names["latent"], names["x"]
    assert float((latent.value(names["moved"], norms=x.norm(dim=1)) - 0.5).abs().max()) < 1e-4
    assert names["steered"].shape[1] <= 11
