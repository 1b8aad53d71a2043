"""Arguments of the wrong type, as a user sees them: in a process without the type checks of the test suite."""

import pytest

from tests import fresh_process

SCRIPT = """
import numpy as np, torch, quadric
from quadric.model import Density, Error
x = torch.randn(64, 4)
cases = [
    lambda: quadric.BilinearAutoencoder(d_model=2.5, n_latents=8),
    lambda: quadric.BilinearAutoencoder(d_model=True, n_latents=8),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, prior="cubic"),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, init="normal"),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8, mixing_density="0.1"),
    lambda: quadric.BilinearAutoencoder(quadric.TopK(), d_model=4),
    lambda: quadric.BilinearAutoencoder(d_model=4, n_latents=8).encode([[1.0, 2.0, 3.0, 4.0]]),
    lambda: quadric.evidence.RowText(2, ["a", 7]),
    lambda: quadric.export(quadric.BilinearAutoencoder(d_model=4, n_latents=8), to="elsewhere", out="exported"),
    lambda: quadric.export(quadric.BilinearAutoencoder(d_model=4, n_latents=8), to="delphi", out="e", side="both"),
    lambda: quadric.Composite(lens="round"),
    lambda: quadric.Composite(n_latents="many"),
    lambda: quadric.Composite(same_factors=1),
    lambda: Error(top=2.5),
    lambda: Error("much"),
    lambda: quadric.Training(gradient_dtype="float16"),
    lambda: quadric.Training(learning_rate="fast"),
    lambda: quadric.Training(learning_rate_decay=True),
    lambda: quadric.fit(x, 8.0),
    lambda: quadric.fit(x, 8, loss=Error()),
    lambda: quadric.fit(x, 8, loss=[0.3]),
    lambda: quadric.fit(x, 8, seed="one"),
    lambda: quadric.fit(x, 8, batch_tokens=2.5),
    lambda: quadric.Composite(n_latents=np.int64(64), atoms_per_latent=np.float32(4)).build(np.int32(8)),
    lambda: quadric.fit(x, np.int64(8), steps=np.int32(2), batch_tokens=np.uint8(32), loss=[Error(1, top=np.int8(2)),
        Density(np.float16(0.5))], training=quadric.Training(learning_rate=np.float32(0.5)), progress=False),
]
for case in cases:
    try:
        case()
        print("accepted")
    except ValueError as problem:
        print(problem)
"""


@pytest.mark.slow
def test_wrong_types_are_named_with_the_remedy_and_numbers_of_numpy_are_numbers():
    result = fresh_process.run(SCRIPT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "d_model=2.5 is not a whole number from 1 to 4294967295; give one",
        "d_model=True is not a whole number from 1 to 4294967295; give one",
        "'cubic' is not a known kind of dictionary (atomic, composite, quadratic, topk, batch_topk, subspaces, relu, "
        "jumprelu); if it is your own, import the module that registers it first (--import my_kind.py on the command "
        "line)",
        "init='normal' is not 'orthogonal' or 'xavier'; give one, or leave it out",
        "mixing density '0.1' is outside (0, 1]; the paper keeps 0.001 of the entries",
        "this dictionary has no use for TopK(n_latents=512, input='unit', subtract_decoder_bias=True, n_active=32); "
        "make one with settings.build(d_model)",
        "activations are list; expected a floating-point tensor, e.g. x.float()",
        "the text of row 1 is 7 of type int; give strings",
        "to='elsewhere' is unknown; choose one of saelens, saebench, neuronpedia, delphi",
        "side='both' is unknown; choose one of positive, negative",
        "lens='round' is not 'paper' or 'affine'; give one, or leave it out",
        "n_latents='many' is not a whole number; give one, or leave it out",
        "same_factors=1 is not True or False; give one, or leave it out",
        "top=2.5 is not a whole number or None; give one, or leave it out",
        "weight='much' is not a finite number; give one, or leave it out",
        "gradient_dtype='float16' is not 'auto' or 'float32' or 'bfloat16'; give one, or leave it out",
        "learning_rate='fast' is not a finite number or None; give one, or leave it out",
        "learning_rate_decay=True is not a finite number or None; give one, or leave it out",
        "8.0 is not a kind of dictionary; give e.g. quadric.Composite(n_latents=512)",
        "loss=Error(weight=1.0, top=None) is not a list of terms; give e.g. [*kind.default_loss(), MyTerm(0.1)]",
        "0.3 in the loss is not a quadric.Term; give e.g. Density(0.05)",
        "seed='one' is not a whole number; give one, or leave it out",
        "batch_tokens=2.5 is not a whole number ≥ 1; give the rows per batch",
        "accepted",
        "accepted",
    ]
