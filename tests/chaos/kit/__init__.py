"""Chaos on real processes: the parts of tests/chaos/campaign."""
