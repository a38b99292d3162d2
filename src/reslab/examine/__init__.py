"""Measurements of any PyTorch model: structure first, then one module a measurement."""
