"""Measurements of nets; measuring never changes what is measured."""
