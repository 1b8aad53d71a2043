"""Training speed of TopK in SAELens and sparsify, in a separate virtual environment that is created on first use."""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

LIBRARIES = {"SAELens TopK": "saelens", "sparsify TopK": "sparsify"}
PACKAGES = ("sae-lens==6.54.12", "eai-sparsify==1.3.3")
FOLDER = Path(tempfile.gettempdir()) / "quadric-benchmarks" / "other-libraries"
STEPS = Path(__file__).parent / "other_libraries_step.py"


def library_speed(library: str, tokens: Float[Tensor, "n d"], n_latents: int) -> float:
    """Tokens per second of the library's training step, timed in a separate process with the same number of threads."""
    python = _environment()
    with tempfile.TemporaryDirectory() as folder:
        save_file({"tokens": tokens.contiguous()}, Path(folder) / "tokens.safetensors")
        command = [python, STEPS, LIBRARIES[library], folder, n_latents, torch.get_num_threads()]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{library} failed:\n{done.stderr[-2000:]}")
    return float(len(tokens) / json.loads(done.stdout.splitlines()[-1])["seconds"])


def _environment() -> Path:
    """Python of a virtual environment with the libraries and our version of torch."""
    python, ready = FOLDER / "bin" / "python", FOLDER / "ready"
    if not ready.exists() or ready.read_text() != repr(PACKAGES):
        print(f"Installing {', '.join(PACKAGES)} into {FOLDER} (once, some minutes) ...", file=sys.stderr)
        venv.create(FOLDER, with_pip=True)
        pinned = f"torch=={torch.__version__.partition('+')[0]}"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", pinned, *PACKAGES], check=True)
        ready.write_text(repr(PACKAGES))
    return python
