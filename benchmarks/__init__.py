"""Every speed and memory figure we claim, as a ratio: ``python -m benchmarks``."""
