"""`quadric demo`: what it prints is what it saved."""

import quadric
from quadric.cli import main


def test_demo_trains_reports_and_saves(tmp_path, capsys):
    assert main(["demo", "--steps", "20", "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    for name in ("direction 5", "circle 3", "sphere 1"):
        assert name in captured.out
    assert "step 20/20" in captured.err
    ae = quadric.load(tmp_path / "run")
    assert ae.prior == "composite"
    assert ae.provenance.corpus == "planted manifolds, seed 0"
    assert ae.mixing_density < 0.04
