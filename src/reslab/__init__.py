"""reslab: build, train, examine, shrink and ship nets that go deep."""

__version__ = "0.1.0"
