"""Labels by a language model, several at a time; answers are kept as they come, so that a second run asks the rest."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from quadric.evidence.endpoints import Endpoint
from quadric.evidence.prompting import AnswerError, instructions_sha256, label_in, prompt_for
from quadric.evidence.record import Evidence, Labels, ModelLabels
from quadric.evidence.storage import replace_labels

ANSWERS = "model_labels.jsonl"
ASKED_TWICE = 2


class LabellingReport(NamedTuple):
    """What came of it."""

    labelled: dict[int, str]
    from_before: int
    failures: dict[int, str]
    """Why a latent got no label."""


def label_latents(
    folder: Path,
    latents: Sequence[int],
    endpoint: Endpoint,
    *,
    concurrency: int = 4,
    sleep: Callable[[float], None] = time.sleep,
    on_progress: Callable[[int], None] = lambda _: None,
) -> LabellingReport:
    """Ask for a label of each latent, and store those that came in the evidence, marked unevaluated."""
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency} is not positive; give how many requests may be open at once")
    evidence = Evidence.load(folder)
    for latent in latents:
        if not 0 <= latent < evidence.n_latents:
            raise ValueError(f"latent {latent} is outside 0 … {evidence.n_latents - 1}")
    prompts = {latent: prompt_for(evidence, latent) for latent in latents}
    known = _read(folder / ANSWERS)
    found = {latent: known[key] for latent, text in prompts.items() if (key := _key(endpoint, text)) in known}
    before = len(found)
    on_progress(before)
    failures: dict[int, str] = {}
    missing = {latent: text for latent, text in prompts.items() if latent not in found}
    try:
        for latent, outcome in _answers(missing, endpoint, concurrency, sleep):
            if isinstance(outcome, AnswerError):
                failures[latent] = str(outcome)
            else:
                found[latent] = outcome
                _append(folder / ANSWERS, _key(endpoint, prompts[latent]), outcome)
            on_progress(1)
    finally:  # whatever ends it, what was answered is not asked again
        if found:
            replace_labels(folder, _with(evidence.labels, found, endpoint))
    return LabellingReport(found, before, failures)


def _answers(
    prompts: dict[int, str], endpoint: Endpoint, concurrency: int, sleep: Callable[[float], None]
) -> Iterator[tuple[int, str | AnswerError]]:
    """Labels as they come; the first error that is not an odd answer ends it, and nothing new is asked."""
    pool = ThreadPoolExecutor(concurrency)
    try:
        waiting: dict[Future[str | AnswerError], int] = {
            pool.submit(_ask, endpoint, prompt, sleep): latent for latent, prompt in prompts.items()
        }
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                yield waiting.pop(each), each.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ask(endpoint: Endpoint, prompt: str, sleep: Callable[[float], None]) -> str | AnswerError:
    odd = AnswerError("never asked")
    for _ in range(ASKED_TWICE):
        try:
            return label_in(endpoint.ask(prompt, sleep))
        except AnswerError as wrong:
            odd = wrong
    return odd


def _with(labels: Labels, found: dict[int, str], endpoint: Endpoint) -> Labels:
    """Labels of the same origin are kept beside the new ones, others replaced."""
    fresh = ModelLabels(texts=found, model=endpoint.model, endpoint=endpoint.url, prompt_sha256=instructions_sha256())
    before = labels.from_model
    if before is not None and replace(before, texts=found) == fresh:
        fresh = replace(fresh, texts=before.texts | found)
    return replace(labels, from_model=replace(fresh, texts=dict(sorted(fresh.texts.items()))))


def _key(endpoint: Endpoint, prompt: str) -> str:
    return hashlib.sha256(json.dumps([endpoint.url, endpoint.model, prompt]).encode()).hexdigest()


def _read(path: Path) -> dict[str, str]:
    """Answers of earlier runs; a last line that was cut off is asked again."""
    if not path.is_file():
        return {}
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
            known[record["key"]] = record["label"]
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _append(path: Path, key: str, label: str) -> None:
    """On a line of its own, also after one that was cut off."""
    cut = path.is_file() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut else "") + json.dumps({"key": key, "label": label}, ensure_ascii=False) + "\n")
