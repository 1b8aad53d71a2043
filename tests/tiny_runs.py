"""Whole runs on a tiny random language model and a page of text: seconds, but nothing left out."""

from pathlib import Path

from tests.data.tiny import save_tiny

WORDS = "All happy families are alike; each unhappy family is unhappy in its own way. "


def make_tiny_world(folder: Path) -> Path:
    """A folder with a model and with text in documents that all differ."""
    save_tiny(folder / "tiny-llama")
    (folder / "text.txt").write_text("\n\n".join(f"{number}. {WORDS * 3}" for number in range(60)))
    return folder


def flags(world: Path) -> list[str]:
    """Which activations: what harvest and train share."""
    return [
        *("--model", str(world / "tiny-llama"), "--corpus", str(world / "text.txt"), "--document-separator", "\n\n"),
        *("--block-length", "32", "--sequences-per-forward", "2", "--device", "cpu"),
    ]


def train_command(world: Path, out: Path, *more: str) -> list[str]:
    """A small run; later flags override earlier ones."""
    return [
        *("train", *flags(world), "--layer", "2", "--n-latents", "24", *sizes("composite", *more), "--steps", "8"),
        *("--sequences-per-step", "4", "--checkpoint-every", "2", "--out", str(out), *more),
    ]


def sweep_command(world: Path, out: Path, *more: str) -> list[str]:
    """A small sweep; later flags override earlier ones."""
    return [
        *("sweep", *flags(world), "--layers", "1,2", "--prior", "composite", "topk", "--n-latents", "24"),
        *(*sizes("composite", "topk", *more), "--steps", "6", "--sequences-per-step", "4"),
        *("--checkpoint-every", "2", "--held-out-tokens", "64", "--out", str(out), *more),
    ]


def sizes(*words: str) -> list[str]:
    """The small sizes of the priors among these words; others would be refused."""
    given = words[words.index("--prior") :] if "--prior" in words else words
    linear = ["--n-active", "4"] if {"topk", "batch_topk"} & set(given) else []
    return linear + (["--atoms-per-latent", "4.8"] if "composite" in given else [])
