"""Benchmarks: accuracy in ``make results``, speed and memory in ``make bench``; both write to ``results/``."""
