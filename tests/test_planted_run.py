"""The demo's recipe finds what was planted, and an untrained autoencoder does not."""

from quadric.planted_run import planted_demo


def test_circles_and_spheres_are_found():
    result = planted_demo(steps=400, seed=0, on_step=lambda report: None)
    assert result.error < 0.35
    for found, chance in zip(result.found, result.chance, strict=True):
        assert chance.inside < 0.15
        if not found.manifold.startswith("direction"):
            assert found.inside > 0.75
