"""A live server of a small run, made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quadric.explanations import Explainer
from quadric.run.sites import export_site
from quadric.run.viewing import run_explainer
from quadric.viewer.live.api import Api
from quadric.viewer.live.session import Session
from quadric.viewer.serve import SiteServer
from tests.explanations.small_run import NAME, make_small_run


@pytest.fixture(scope="session")
def live_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with evidence and a site."""
    run = make_small_run(tmp_path_factory.mktemp("live"))
    explainer = run_explainer(run, model=str(run.parent / "tiny"), device="cpu")
    assert explainer.evidence is not None
    export_site(explainer.autoencoder, explainer.evidence, run / "site", name=NAME, with_map=False)
    return run


@pytest.fixture(scope="session")
def live_explainer(live_run: Path) -> Explainer:
    return run_explainer(live_run, model=str(live_run.parent / "tiny"), device="cpu")


@pytest.fixture(scope="session")
def live(live_run: Path, live_explainer: Explainer) -> Iterator[SiteServer]:
    server = SiteServer(live_run / "site", 0, Api(Session({NAME: live_explainer})))
    yield server
    server.close()
