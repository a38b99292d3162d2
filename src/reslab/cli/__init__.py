"""The command line: the only place that prints, reads arguments or the environment, or exits."""
