"""Speed of linear peers, each in an environment of their own that is made on first use."""

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

PEERS = {"SAELens TopK": "saelens", "sparsify TopK": "sparsify"}
PACKAGES = ("sae-lens==6.54.12", "eai-sparsify==1.3.3")
FOLDER = Path(tempfile.gettempdir()) / "quadric-benchmarks" / "peers"
STEPS = Path(__file__).parent / "peer_steps.py"


def peer_speed(peer: str, tokens: Float[Tensor, "n d"], n_latents: int) -> float:
    """Tokens a second of the peer's training step, as its own process measures it with as many threads as this."""
    python = _environment()
    with tempfile.TemporaryDirectory() as folder:
        save_file({"tokens": tokens.contiguous()}, Path(folder) / "tokens.safetensors")
        command = [python, STEPS, PEERS[peer], folder, n_latents, torch.get_num_threads()]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{peer} failed:\n{done.stderr[-2000:]}")
    return float(len(tokens) / json.loads(done.stdout.splitlines()[-1])["seconds"])


def _environment() -> Path:
    """A virtual environment with the peers and the same torch as ours."""
    python, ready = FOLDER / "bin" / "python", FOLDER / "ready"
    if not ready.exists() or ready.read_text() != repr(PACKAGES):
        print(f"Installing {', '.join(PACKAGES)} into {FOLDER} (once, some minutes) ...", file=sys.stderr)
        venv.create(FOLDER, with_pip=True)
        pinned = f"torch=={torch.__version__.partition('+')[0]}"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", pinned, *PACKAGES], check=True)
        ready.write_text(repr(PACKAGES))
    return python
