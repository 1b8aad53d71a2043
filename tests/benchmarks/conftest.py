"""A small model with a dictionary and its evidence, as the tests of steering have it."""

from tests.studies.steering.conftest import steerable

__all__ = ["steerable"]
