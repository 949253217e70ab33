"""Benchmarks for airspeed velocity; `asv run` in `benches/`. One thread, fixed seeds."""
