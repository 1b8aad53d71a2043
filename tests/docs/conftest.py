"""Examples may register kinds and terms; other tests know nothing of them."""

from collections.abc import Iterator

import pytest

from quadric.model.settings import KINDS
from quadric.model.terms import TERMS


@pytest.fixture(autouse=True)
def own_kinds_and_terms() -> Iterator[None]:
    kinds, terms = dict(KINDS), dict(TERMS)
    yield
    for registry, before in ((KINDS, kinds), (TERMS, terms)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]
