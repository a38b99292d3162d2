"""Reshaping trained nets: the result is a new model, the given one is left alone."""
