"""A pass from stream to disk: interrupted and resumed, refused where the stream is not the autoencoder's."""

import dataclasses
from pathlib import Path

import pytest

from quadric.evidence import Evidence, EvidenceSettings, Job, collect, collect_together
from quadric.evidence.collecting import STATE
from quadric.model import Provenance
from tests.evidence.streams import HOOK, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS, assert_same

TEXT = RandomText(30)


class Killed(BaseException):
    """Not an error that anything should catch."""


class DyingStream(RandomStream):
    """Raises instead of yielding a certain batch, as if the process were killed."""

    def __init__(self, *arguments, dies_at: int) -> None:
        super().__init__(*arguments)
        self.dies_at = dies_at

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if number == self.dies_at:
                raise Killed
            yield batch


def run(
    folder: Path, stream: RandomStream | None = None, settings: EvidenceSettings = SETTINGS, n: int = 10**6
) -> Evidence:
    stream = stream or RandomStream(TEXT, 50)
    return collect(
        small_autoencoder(), stream, folder, n_tokens=n, settings=settings, text=TEXT, seconds_between_saves=0.0
    )


@pytest.mark.parametrize("dies_at", [1, 4])
def test_a_killed_pass_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path, dies_at: int) -> None:
    unbroken = run(tmp_path / "unbroken")
    with pytest.raises(Killed):
        run(tmp_path / "killed", DyingStream(TEXT, 50, dies_at=dies_at))
    assert (tmp_path / "killed" / STATE).is_file()
    rest = RandomStream(TEXT, 50)
    seen = []
    resumed = collect(
        small_autoencoder(),
        rest,
        tmp_path / "killed",
        n_tokens=10**6,
        settings=SETTINGS,
        text=TEXT,
        on_progress=lambda *report: seen.append(report),
    )
    assert_same(resumed, unbroken)
    assert seen[0][1] == 50 * dies_at
    assert not (tmp_path / "killed" / STATE).exists()


def test_autoencoders_on_one_stream_get_what_each_would_get_alone(tmp_path: Path) -> None:
    jobs = [Job(small_autoencoder(seed=seed), tmp_path / str(seed)) for seed in (2, 3)]
    together = collect_together(jobs, RandomStream(TEXT, 50), n_tokens=300, settings=SETTINGS, text=TEXT)
    for job, evidence in zip(jobs, together, strict=True):
        stream = RandomStream(TEXT, 70)
        alone = collect(job.autoencoder, stream, tmp_path / "alone", n_tokens=300, settings=SETTINGS, text=TEXT)
        assert_same(evidence, alone)


@pytest.mark.parametrize(("first_dies", "second_dies"), [(2, 4), (4, 2), (3, None)])
def test_autoencoders_whose_states_disagree_go_on_together(
    tmp_path: Path, first_dies: int, second_dies: int | None
) -> None:
    """A process may be killed after one state was saved and before the other; then they differ."""
    jobs = [Job(small_autoencoder(seed=seed), tmp_path / str(seed)) for seed in (2, 3)]
    options = {"n_tokens": 10**6, "settings": SETTINGS, "text": TEXT, "seconds_between_saves": 0.0}
    for job, dies_at in zip(jobs, (first_dies, second_dies), strict=True):
        if dies_at is not None:
            with pytest.raises(Killed):
                collect(job.autoencoder, DyingStream(TEXT, 50, dies_at=dies_at), job.folder, **options)
    with pytest.raises(Killed):  # and killed once more while one of them waits for the other
        collect_together(jobs, DyingStream(TEXT, 50, dies_at=1), **options)
    resumed = collect_together(jobs, RandomStream(TEXT, 50), **options)
    for job, evidence in zip(jobs, resumed, strict=True):
        assert_same(evidence, collect(job.autoencoder, RandomStream(TEXT, 50), tmp_path / "alone", **options))


def test_a_state_of_another_pass_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path, DyingStream(TEXT, 50, dies_at=2))
    with pytest.raises(ValueError, match=r"begun with other settings; delete it"):
        run(tmp_path, settings=dataclasses.replace(SETTINGS, seed=5))


def test_exactly_the_tokens_asked_for_are_scored(tmp_path: Path) -> None:
    evidence = run(tmp_path, n=123)
    assert evidence.n_tokens == 123
    assert evidence.notes == []


def test_a_text_that_ends_early_is_noted(tmp_path: Path) -> None:
    evidence = run(tmp_path)
    assert evidence.n_tokens == len(RandomStream(TEXT, 1))
    assert "The text ended" in evidence.notes[0]


def test_text_holds_every_position_of_every_sequence_touched(tmp_path: Path) -> None:
    evidence = run(tmp_path, n=123)
    n_sequences = len(evidence.text.sequence_starts)
    assert len(evidence.text.token_ids) == 20 * n_sequences
    letters = b"".join(evidence.text.vocabulary[token] for token in evidence.text.token_ids)
    assert letters == b"".join(bytes([97 + token]) for token in TEXT.tokens[:n_sequences].ravel())
    counts = [letters.count(token) for token in evidence.text.vocabulary]
    assert counts == sorted(counts, reverse=True)


def test_a_stream_of_another_width_model_or_place_is_refused(tmp_path: Path) -> None:
    ae = small_autoencoder()
    ae.provenance = Provenance(hook_point=HOOK, model="another")
    with pytest.raises(ValueError, match="made for model 'another'"):
        collect(ae, RandomStream(TEXT, 50), tmp_path, n_tokens=100, text=TEXT)
    ae.provenance = Provenance(hook_point="resid_pre.9")
    with pytest.raises(ValueError, match=r"reads hook point resid_pre\.9"):
        collect(ae, RandomStream(TEXT, 50), tmp_path, n_tokens=100, text=TEXT)
    stream = RandomStream(TEXT, 50)
    stream.d_model = 13
    with pytest.raises(ValueError, match="d_model=12, the stream 13"):
        collect(small_autoencoder(), stream, tmp_path, n_tokens=100, text=TEXT)


def test_a_repeating_stream_and_a_stream_without_text_are_refused(tmp_path: Path) -> None:
    stream = RandomStream(TEXT, 50)
    with pytest.raises(ValueError, match="does not say which text"):
        collect(small_autoencoder(), stream, tmp_path, n_tokens=100)
    stream.repeat = True
    with pytest.raises(ValueError, match="repeats its text"):
        collect(small_autoencoder(), stream, tmp_path, n_tokens=100, text=TEXT)
    with pytest.raises(ValueError, match="n_tokens=1 "):
        collect(small_autoencoder(), RandomStream(TEXT, 50), tmp_path, n_tokens=1, text=TEXT)
