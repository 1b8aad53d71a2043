"""Time a training step of SAELens or sparsify; prints the median seconds as JSON.

`other_libraries.py` runs this script in the virtual environment of those libraries.

python other_libraries_step.py saelens|sparsify FOLDER N_LATENTS N_THREADS
"""

import json
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from safetensors.torch import load_file

N_ACTIVE, ROUNDS = 32, 5


def saelens(tokens: torch.Tensor, n_latents: int) -> Callable[[], object]:
    """The step of SAELens' trainer without logging: forward pass, gradient clipping and Adam."""
    from sae_lens.saes.sae import TrainStepInput
    from sae_lens.saes.topk_sae import TopKTrainingSAE, TopKTrainingSAEConfig

    sae = TopKTrainingSAE(TopKTrainingSAEConfig(d_in=tokens.shape[1], d_sae=n_latents, k=N_ACTIVE))
    optimizer = torch.optim.Adam(sae.parameters(), lr=3e-4)

    def step() -> None:
        batch = TrainStepInput(
            sae_in=tokens, coefficients={}, dead_neuron_mask=None, n_training_steps=0, is_logging_step=False
        )
        sae.training_forward_pass(step_input=batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(sae.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def sparsify(tokens: torch.Tensor, n_latents: int) -> Callable[[], object]:
    """The step of sparsify's coder with its default optimizer."""
    from sparsify import SparseCoder, SparseCoderConfig
    from sparsify.sign_sgd import SignSGD

    coder = SparseCoder(tokens.shape[1], SparseCoderConfig(num_latents=n_latents, k=N_ACTIVE))
    optimizer = SignSGD(coder.parameters(), lr=1e-3)

    def step() -> None:
        coder(tokens).fvu.backward()
        coder.remove_gradient_parallel_to_decoder_directions()
        optimizer.step()
        optimizer.zero_grad()
        coder.set_decoder_norm_to_unit_norm()

    return step


def main() -> None:
    library, folder, n_latents, n_threads = sys.argv[1:]
    torch.set_num_threads(int(n_threads))
    tokens = load_file(f"{folder}/tokens.safetensors")["tokens"]
    step = {"saelens": saelens, "sparsify": sparsify}[library](tokens, int(n_latents))
    step()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": median(seconds)}))


if __name__ == "__main__":
    main()
