"""A run's dictionary, exported and then used by SAELens, SAEBench and delphi themselves.

In an environment that has them: `make bench-interop` makes it and runs this. The run is that of `quadric demo`; tokens
that it was not trained on come from the cache of bench_lens.py (layer 15 of SmolLM2).

    .venv-interop/bin/python benchmarks/bench_interop.py
    .venv-interop/bin/python benchmarks/bench_interop.py --run runs/demo
"""

import argparse
import csv
import io
import random
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jaxtyping

# SAEBench 0.6 checks a shape against one of the calling function: with beartype 0.23, its own SAEs fail as well.
jaxtyping.config.update("jaxtyping_disable", True)

import torch  # noqa: E402
from bench_reading import activations  # noqa: E402
from delphi.config import ConstructorConfig, SamplerConfig  # noqa: E402
from delphi.latents import LatentDataset  # noqa: E402
from measure import RESULTS, environment  # noqa: E402
from sae_bench.evals.sparse_probing import main as sparse_probing  # noqa: E402
from sae_bench.evals.sparse_probing.probe_training import train_probe_on_activations  # noqa: E402
from sae_bench.sae_bench_utils.activation_collection import create_meaned_model_activations  # noqa: E402
from sae_lens import SAE  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.functional import cosine_similarity, normalize  # noqa: E402

import quadric  # noqa: E402
import quadric.interop.saelens  # noqa: E402 - registers the architecture
from quadric.data.models import find_model, load_shape  # noqa: E402
from quadric.interop.saebench import BenchSAE, load  # noqa: E402
from quadric.studies.probing.catalogue import read_csv  # noqa: E402

HELD_OUT = 8192
SETS = ("161_agnews_0", "139_news_class_Politics", "159_code_Python")
TEXTS, WORDS, BLOCK, TRAIN_SHARE = 220, 40, 64, 0.6
COUNTS = (1, 5, 20)
DELPHI_LATENTS = 40
Facts = list[tuple[str, str]]


@torch.no_grad()
def in_saelens(run: str, folder: Path) -> Facts:
    """SAELens's latents and reconstructions on held-out tokens, against Quadric's."""
    ae = quadric.load(run).requires_grad_(False)
    quadric.export(ae, to="saelens", out=folder, progress=False)
    sae, x = SAE.load_from_disk(folder), activations("held_out", HELD_OUT)
    latents, own = sae.encode(x), ae.encode(ae.prepare(x))
    rebuilt, expected = sae.decode(latents), ae.rebuild(x)
    unit, lengths = normalize(x, dim=1), x.norm(dim=1, keepdim=True)
    mean = unit.mean(0)
    unexplained = (unit - rebuilt / lengths).square().sum() / (unit - mean).square().sum()
    return [
        ("largest difference of latents", f"{float((latents - own).abs().max()):.0e}"),
        ("largest difference of reconstructions, by length", f"{_largest_share(rebuilt - expected, expected):.0e}"),
        ("explained variance of unit tokens", f"{1 - float(unexplained):.3f}"),
        ("mean cosine of token and reconstruction", f"{float(cosine_similarity(x, rebuilt).mean()):.3f}"),
        ("mean cosine of token and mean token", f"{float(cosine_similarity(x, mean[None]).mean()):.3f}"),
    ]


def _largest_share(difference: Tensor, of: Tensor) -> float:
    return float((difference.norm(dim=1) / of.norm(dim=1)).max())


def probing_activations(name: str) -> dict[str, Any]:
    """Activations of texts of both classes, as SAEBench stores them, and what its probes reach on them."""
    classes = {label: _class_activations(name, label) for label in ("0", "1")}
    n_texts = min(map(len, classes.values()))
    n_train = int(TRAIN_SHARE * n_texts)
    train = {label: values[:n_train] for label, values in classes.items()}
    test = {label: values[n_train:n_texts] for label, values in classes.items()}
    means = [create_meaned_model_activations(each) for each in (train, test)]
    _, full = train_probe_on_activations(*means, select_top_k=None)
    reached = {"llm_test_accuracy": full}
    for count in COUNTS:
        _, reached[f"llm_top_{count}_test_accuracy"] = train_probe_on_activations(*means, select_top_k=count)
    return {"train": train, "test": test, "llm_results": reached}


def _class_activations(name: str, label: str) -> Tensor:
    """(texts, tokens, d), zero beyond the end of a text, which is how SAEBench masks tokens."""
    rows = csv.DictReader(io.StringIO(read_csv(name), newline=""))
    texts = [" ".join(row["prompt"].split()[:WORDS]) for row in rows if row["target"] == label]
    texts = [text for text in texts if len(text) > 20]
    random.Random(0).shuffle(texts)
    harvested = quadric.harvest("smollm2", texts[:TEXTS], layer=15, block_length=BLOCK, progress=False)
    sequences, places = harvested.batch.sequences.unique(return_inverse=True)
    padded = torch.zeros(len(sequences), BLOCK, harvested.vectors.shape[1])
    padded[places, harvested.batch.positions] = harvested.vectors
    return padded[:TEXTS]


def in_other_units(sae: BenchSAE) -> dict[str, Tensor]:
    """Units of the latents: as exported, of the forms, and for unit tokens."""
    length = sae.cfg.d_in**0.5
    return {
        "latents, f_i = z_i·‖d_i‖·√d (as exported)": sae.units,
        "latents in units of their forms, z_i·‖W_i‖·√d": sae.autoencoder.kernel().diagonal().sqrt().float() * length,
        "latents for unit tokens, z_i·‖d_i‖": sae.units / length,
    }


def in_saebench(run: str, folder: Path) -> tuple[list[list[str]], Facts]:
    """Accuracies of SAEBench's sparse probes, and its L0 on held-out tokens."""
    quadric.export(run, to="saebench", out=folder / "sae", progress=False)
    for name in SETS:
        torch.save(probing_activations(name), folder / f"{name}_activations.pt")
    config = sparse_probing.SparseProbingEvalConfig(
        dataset_names=list(SETS), k_values=list(COUNTS), sae_batch_size=64, model_name="smollm2", lower_vram_usage=False
    )
    rows, sae = {}, load(folder / "sae")
    for title, units in in_other_units(sae).items():
        sae.units = units
        torch.manual_seed(0)
        found = [_probe(name, config, sae, folder) for name in SETS]
        rows["entries of the activation"] = _means("llm", found)
        rows[title] = _means("sae", found)
    active = (load(folder / "sae").encode(activations("held_out", HELD_OUT)) > 0).sum(1).float().mean()
    return [[title, *values] for title, values in rows.items()], [
        ("L0 as SAEBench counts it (f > 0)", f"{active:.0f} of {sae.cfg.d_sae}")
    ]


def _probe(name: str, config: Any, sae: BenchSAE, folder: Path) -> dict[str, float]:
    place = (sae.cfg.hook_layer, sae.cfg.hook_name)
    return sparse_probing.run_eval_single_dataset(name, config, sae, None, *place, "cpu", str(folder), False)[0]


def _means(which: str, found: list[dict[str, float]]) -> list[str]:
    names = [*(f"{which}_top_{count}_test_accuracy" for count in COUNTS), f"{which}_test_accuracy"]
    return [f"{sum(each[name] for each in found) / len(found):.2f}" for name in names]


def in_delphi(run: str, folder: Path) -> Facts:
    """How often latents fire in delphi's cache, and the examples that it builds."""
    quadric.export(run, to="delphi", out=folder, quantile=0.99, progress=False)
    (shard,) = folder.glob("latents/layers.14/*.safetensors")
    stored = load_file(shard)
    fired = torch.bincount(stored["locations"][:, 2].long())
    (evidence,) = Path(run, "evidence").iterdir()
    shares = fired / quadric.Evidence.load(evidence).n_tokens
    chosen = {"layers.14": torch.arange(DELPHI_LATENTS)}
    tokenizer = load_shape(find_model("smollm2")).tokenizer.hf
    records = list(
        LatentDataset(
            folder / "latents",
            SamplerConfig(),
            ConstructorConfig(),
            tokenizer=tokenizer,
            modules=["layers.14"],
            latents=chosen,
        )
    )
    examples = [len(record.examples) for record in records]
    return [
        ("share of tokens on which a latent fires", f"{100 * shares.min():.2f} to {100 * shares.max():.2f} %"),
        (f"records built of the first {DELPHI_LATENTS} latents", str(len(records))),
        ("examples per record", f"{min(examples)} to {max(examples)}"),
    ]


def page(run: str) -> str:
    """All results as one page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lens = in_saelens(run, folder / "saelens")
        (folder / "saebench").mkdir()
        probes, counted = in_saebench(run, folder / "saebench")
        delphi = in_delphi(run, folder / "delphi")
    packages = ", ".join(f"{each} {version(each)}" for each in ("sae-lens", "sae-bench", "eai-delphi", "sae-probes"))
    sections = [
        f"# A demo dictionary in other libraries\n\n`make bench-interop`, {packages}; {environment()}",
        f"## SAELens and SAEBench on {HELD_OUT:,} held-out tokens\n\n{_facts(lens + counted)}",
        f"## SAEBench's sparse probing\n\n{_table(['best by mean difference', *map(str, COUNTS), 'all'], probes)}\n\n"
        f"Mean accuracy on {', '.join(f'`{each}`' for each in SETS)}; {TEXTS} texts per class, {TRAIN_SHARE:.0%} of "
        f"them for training; the first {WORDS} words of each, in parts of {BLOCK} tokens; chance is 0.5; one seed.",
        f"## delphi, quantile 0.99\n\n{_facts(delphi)}",
    ]
    return "\n\n".join(sections) + "\n"


def _facts(facts: Facts) -> str:
    return _table(["", ""], [list(fact) for fact in facts])


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="runs/demo", help="a run of quadric demo, with evidence")
    warnings.simplefilter("ignore")
    text = page(parser.parse_args().run)
    (RESULTS / "interop.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
