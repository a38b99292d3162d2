"""Experiments of the papers: hypothesis, arms, measures, verdict."""
