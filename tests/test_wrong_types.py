"""Arguments of the wrong type, as a user sees them: in a process without the type checks of the test suite."""

import pytest

from tests import fresh_process

SCRIPT = """
import torch, quadric
cases = [
    lambda: quadric.BilinearAutoencoder(d_model=2.5, n_latents=8),
    lambda: quadric.BilinearAutoencoder(d_model=True, n_latents=8),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, prior="cubic"),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, init="normal"),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, mixing_density="0.1"),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8).encode([[1.0, 2.0, 3.0, 4.0]]),
    lambda: quadric.evidence.RowText(2, ["a", 7]),
    lambda: quadric.export(quadric.BilinearAutoencoder(d_model=4, n_latents=8), to="elsewhere", out="exported"),
    lambda: quadric.export(quadric.BilinearAutoencoder(d_model=4, n_latents=8), to="delphi", out="e", side="both"),
    lambda: quadric.fit(torch.randn(64, 4), 8, gradient_dtype="float16"),
    lambda: quadric.fit(torch.randn(64, 4), 8, mean_penalty="much"),
    lambda: quadric.fit(torch.randn(64, 4), 8, learning_rate="fast"),
    lambda: quadric.fit(torch.randn(64, 4), 8, learning_rate_decay=True),
]
for case in cases:
    try:
        case()
        print("accepted")
    except ValueError as problem:
        print(problem)
"""


@pytest.mark.slow
def test_wrong_types_are_named_with_the_remedy():
    result = fresh_process.run(SCRIPT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "d_model=2.5 is not a whole number ≥ 1; give at least 1",
        "d_model=True is not a whole number ≥ 1; give at least 1",
        "prior='cubic' is unknown; choose one of atomic, composite, quadratic",
        "init='normal' is unknown; choose one of orthogonal, xavier",
        "mixing density '0.1' is outside (0, 1]; the paper keeps 0.001 of the entries",
        "activations are list; expected a floating-point tensor, e.g. x.float()",
        "the text of row 1 is 7 of type int; give strings",
        "to='elsewhere' is unknown; choose one of saelens, saebench, neuronpedia, delphi",
        "side='both' is unknown; choose one of positive, negative",
        "gradient_dtype='float16' is unknown; choose one of auto, float32, bfloat16",
        "mean_penalty='much' is not a number; give one, or leave it out",
        "learning_rate='fast' is not a number; give one, or leave it out",
        "learning_rate_decay=True is not a number; give one, or leave it out",
    ]
