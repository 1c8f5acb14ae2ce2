"""Two runs of clean_runs.py; the script itself runs as many as it is told, of all examples and levels."""

import clean_runs
from conftest import VENV


def test_clean_runs_of_the_examples_raise_nothing(cluster, monkeypatch):
    cluster.up("--nodes", 2, "--interpreter", VENV / "bin/python")
    few = [clean_runs.VARIANTS[i] for i in (0, 5)]  # hello at quick, torchrun at full
    assert {level for _, level, _ in few} == {"quick", "full"}
    monkeypatch.setattr(clean_runs, "VARIANTS", few)
    assert clean_runs.campaign(cluster, len(few)) == []
