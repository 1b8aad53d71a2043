"""Dictionaries on the Hugging Face hub: push, pull, model card."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from quadric.model import Dictionary
from quadric.model.forms import Forms

FILES = ("config.json", "weights-*.safetensors")
FOREIGN_FILES = ("cfg.json", "sae_weights.safetensors", "activation_scaler.json", "sae.safetensors")
"""Those of SAELens and sparsify. A model.safetensors that is in none of the named folders may be a language model's."""


def push(autoencoder: Dictionary, hub_id: str, *, private: bool = False, token: str | None = None) -> str:
    """Upload an autoencoder to the Hugging Face hub, with a model card.

    Args:
        autoencoder: Any dictionary.
        hub_id: Repository to upload to, `owner/name`; it is created if it does not exist.
        private: Whether a new repository is private.
        token: Access token; by default the one that `hf auth login` stored.

    Returns:
        The address of the commit.

    Example:
        >>> quadric.push(ae, "my-name/weekdays")
        'https://huggingface.co/my-name/weekdays/commit/...'
    """
    hub = _hub_library()
    api = hub.HfApi(token=token)
    with TemporaryDirectory() as folder:
        autoencoder.save_pretrained(folder)
        (Path(folder) / "README.md").write_text(model_card(autoencoder, hub_id), encoding="utf-8")
        try:
            api.create_repo(hub_id, private=private, exist_ok=True)
            # Weights of an earlier upload have another file name and would otherwise stay in the repository, unused.
            commit = api.upload_folder(
                repo_id=hub_id,
                folder_path=folder,
                delete_patterns=["weights-*.safetensors"],
                commit_message="Upload autoencoder",
            )
        except Exception as problem:  # the hub's client has errors of many libraries
            raise ConnectionError(
                f"could not push to '{hub_id}' ({_first_line(problem)}); check the name, the network, proxies in the "
                "environment, and your access token"
            ) from problem
    return str(commit.commit_url)


def download(hub_id: str, revision: str | None = None, names: Sequence[str] = ()) -> Path:
    """Download an autoencoder from the hub, or take it from the local hub cache when offline.

    Of a repository of folders, only those with the given names: a release may hold hundreds.
    """
    hub = _hub_library()
    inside = [f"{name}/{file}" for name in names for file in ("config.json", "model.safetensors", *FOREIGN_FILES)]
    try:
        folder = hub.snapshot_download(hub_id, revision=revision, allow_patterns=[*FILES, *FOREIGN_FILES, *inside])
    except Exception as problem:  # the hub's client has errors of many libraries
        raise ConnectionError(
            f"no local folder '{hub_id}', and it could not be downloaded from the hub ({_first_line(problem)}); "
            "check the name, the network, and your access token if it is private"
        ) from problem
    return Path(folder)


def model_card(autoencoder: Dictionary, hub_id: str) -> str:
    """The README of the repository: a description, the provenance, and how to load the autoencoder."""
    origin = autoencoder.provenance
    facts = {
        "kind": autoencoder.kind,
        "d_model": autoencoder.d_model,
        "latents": autoencoder.n_latents,
        "atoms": forms.n_hidden if isinstance(forms := autoencoder.forms(), Forms) else None,
        **vars(origin),
    }
    rows = "\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in facts.items() if value is not None)
    base_model = f"base_model: {origin.model}\n" if origin.model and "/" in origin.model else ""
    return f"""---
library_name: quadric
tags: [bilinear-autoencoder, interpretability]
{base_model}---
# {hub_id.split("/")[-1]}

An autoencoder whose latents describe the activations of a language model, made with Quadric.

| | |
|---|---|
{rows}

```python
import quadric

ae = quadric.load("{hub_id}")
```
"""


def _hub_library() -> ModuleType:
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError(
            "the hub needs the package huggingface_hub; install it with: pip install 'quadric[hub]'"
        ) from None
    return huggingface_hub


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".strip().splitlines()[0]
