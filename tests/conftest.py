"""Tests are deterministic, and a busy machine does not fail them."""

from hypothesis import settings

settings.register_profile("reslab", deadline=None, derandomize=True)
settings.load_profile("reslab")
