"""The guide's examples, run in the order in which they stand."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "geometry.md"


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert names["surface"].radii.numel() > 0
    assert capsys.readouterr().out
