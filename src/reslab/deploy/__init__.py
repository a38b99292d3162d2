"""Trained nets in use."""
