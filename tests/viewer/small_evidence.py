"""Evidence of a small autoencoder on random text, for tests of what a site holds."""

from quadric.evidence import Evidence
from quadric.evidence.collecting import gather
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.viewer.export import SiteInput
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder
from tests.evidence.test_collector import SETTINGS

TEXT = RandomText(30)
N_LATENTS = 12


def evidence_for(seed: int = 2, text: RandomText = TEXT) -> Evidence:
    collector = Collector(small_autoencoder(N_LATENTS, seed=seed), SETTINGS)
    gather([collector], RandomStream(text, 100), text, n_tokens=10**9)
    return evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), [])


EVIDENCE = evidence_for()


def site_input(name: str = "small", seed: int = 2, text: RandomText = TEXT) -> SiteInput:
    evidence = EVIDENCE if (seed, text) == (2, TEXT) else evidence_for(seed, text)
    return SiteInput(name=name, autoencoder=small_autoencoder(N_LATENTS, seed=seed), evidence=evidence, source="runs/x")
