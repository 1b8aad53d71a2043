"""Arguments of the wrong type, tried without the test suite's type checker in the way: what a user would see."""

import subprocess
import sys

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
]
for case in cases:
    try:
        case()
        print("accepted")
    except ValueError as problem:
        print(problem)
"""


def test_wrong_types_are_named_with_the_remedy():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        "d_model=2.5 is not a whole number ≥ 1",
        "d_model=True is not a whole number ≥ 1",
        "prior='cubic' is unknown; choose one of atomic, composite, quadratic",
        "init='normal' is unknown; choose one of orthogonal, xavier",
        "mixing density '0.1' is outside (0, 1]; the paper keeps 0.001 of the entries",
        "activations are list; expected a floating-point tensor, e.g. x.float()",
        "the text of row 1 is 7 of type int; give strings",
    ]
