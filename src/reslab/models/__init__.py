"""Nets by name, their cost, and weights in and out."""
