"""`launch plan --probe`: the user's own script, unchanged, measured on this machine's CPU."""

import json
import textwrap

import pytest

from conftest import VENV

# Takes KEPT MiB for each sample, never ends by itself and says nothing. Blocks this large are mapped
# and unmapped one by one: what the C library keeps of smaller ones would blur the figure.
SCRIPT = """\
import os, torch
micro, passes = int(os.environ["LAUNCH_MICRO_BATCH"]), int(os.environ["LAUNCH_GRAD_ACCUM"])
if "SAID" in os.environ:
    import said_before
    assert said_before.seen, "the user's sitecustomize did not run"
weight = torch.nn.Parameter(torch.ones(1000))
optimizer = torch.optim.AdamW([weight])
while True:
    for _ in range(passes):
        kept = torch.ones(micro * int(os.environ["KEPT"]) * 2**20, dtype=torch.uint8)
        weight.square().mean().backward()
        del kept
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def probe(cluster):
    cluster.up()
    (cluster.work / "t.py").write_text(SCRIPT)

    def run(kept, *lines, flags=("--probe",)):
        (cluster.work / "job.yaml").write_text(textwrap.dedent(f"""\
            name: probed
            device: cpu
            gpus: 0
            venv: {VENV}
            batch: {{global: 16, micro: 4}}
            steps: 100
            env: {{KEPT: "{kept}"}}
            run: python t.py > own.log 2>&1
            """) + "".join(line + "\n" for line in lines))
        done = cluster.launch("plan", "job.yaml", *flags, "-o", "json", timeout=180)
        return json.loads(done.stdout), done.stderr

    run.cluster = cluster
    return run


def per_sample_mib(plan):
    (name,) = [t["name"] for t in plan["memory"]["terms"] if "a sample" in t["name"]]
    return float(name.split(" x ")[1].split()[0]) * 1024


def test_a_probe_measures_what_a_sample_takes(probe):
    small, said = probe(64)
    # The same again by the job file, beside a sitecustomize of the user's own.
    hooks = probe.cluster.work / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text("import said_before\nsaid_before.seen = True\n")
    (hooks / "said_before.py").write_text("seen = False\n")
    large, _ = probe(164, "model: {probe: true}", flags=("-e", f"PYTHONPATH={hooks}", "-e", "SAID=1"))
    assert small["memory"]["basis"] == small["duration"]["basis"] == "probed"
    assert "probe of micro-batch 1" in said and "probe of micro-batch 4" in said
    assert abs(per_sample_mib(large) - per_sample_mib(small) - 100) <= 5, "100 MiB more per sample"
    for plan in (small, large):
        memory = plan["memory"]
        assert abs(sum(t["gib"] for t in memory["terms"]) - memory["peak_gib"]) < 0.005
        assert memory["interval"][0] < memory["peak_gib"] < memory["interval"][1] and memory["fits"] == "yes"
        assert plan["batch"] == {"global": 16, "micro": 4, "accumulate": 4}
        assert "memory_unknown" not in [one["code"] for one in plan["warnings"]]
        assert plan["duration"]["step_seconds"] > 0
    # What was measured is kept: the next plan of the same program, a submit and a plan without a
    # cluster know it; another program does not.
    cluster = probe.cluster
    again, said = probe(64, flags=())
    assert "probe of" not in said and again["memory"]["basis"] == again["duration"]["basis"] == "probed"
    assert again["memory"]["peak_gib"] == small["memory"]["peak_gib"]
    submitted = cluster.submit("job.yaml", "--hold")
    dry = cluster.json("submit", "job.yaml", "--dry-run")
    assert dry["memory"]["basis"] == "probed" and cluster.state_of(submitted) == "PENDING"
    (cluster.work / "runs.yaml").write_text(cluster.launch("calibration", "probed").stdout)
    cluster.launch("nodes", "--save", "saved.yaml")
    offline = cluster.json("plan", "job.yaml", "--inventory", "saved.yaml", "--calibration", "runs.yaml")
    assert offline["memory"]["basis"] == "probed"
    assert abs(offline["memory"]["peak_gib"] - small["memory"]["peak_gib"]) < 0.005
    other, _ = probe(65, flags=())
    (says,) = [one["says"] for one in other["warnings"] if one["code"] == "memory_unknown"]
    assert other["memory"]["peak_gib"] is None and "(a probe), before its command" in says


def test_a_script_without_an_optimizer_measures_nothing_and_says_so(probe):
    (probe.cluster.work / "t.py").write_text("print('no torch here')\n")
    (probe.cluster.work / "job.yaml").write_text(
        f"name: none\ndevice: cpu\ngpus: 0\nvenv: {VENV}\nrun: python t.py\n")
    done = probe.cluster.launch("plan", "job.yaml", "--probe", code=None, timeout=120)
    assert done.returncode != 0 and "measured nothing" in done.stderr and "no torch here" in done.stderr
    offline = probe.cluster.launch("plan", "job.yaml", "--probe", "--inventory", "none.yaml", code=2)
    assert "--probe runs the job" in offline.stderr


def test_the_next_plan_knows_what_the_last_run_took(cluster):
    cluster.up()
    (cluster.work / "t.py").write_text(
        "import time\nheld = bytearray(300 * 2**20)\n"
        "for step in range(1, 5):\n    time.sleep(0.3)\n    print(f'step {step}/4', flush=True)\n")
    (cluster.work / "job.yaml").write_text(
        f"name: known\ndevice: cpu\ngpus: 0\nvenv: {VENV}\nbatch: {{micro: 4}}\nsteps: 4\n"
        "progress: {regex: 'step (\\d+)/(\\d+)'}\nrun: python t.py\n")
    before = cluster.json("plan", "job.yaml")
    assert before["memory"]["peak_gib"] is None
    (remedy,) = [one["remedy"] for one in before["warnings"] if one["code"] == "memory_unknown"]
    assert "--probe" in remedy
    assert cluster.wait_for(cluster.submit("job.yaml"), "SUCCEEDED", timeout=60)
    after = cluster.json("plan", "job.yaml")
    assert after["memory"]["basis"] == after["duration"]["basis"] == "measured"
    assert 0.29 < after["memory"]["peak_gib"] < 0.5
    (cluster.work / "runs.yaml").write_text(cluster.launch("calibration", "known").stdout)
    saved = cluster.launch("nodes", "--save", "saved.yaml", code=None)
    assert saved.returncode == 0, saved.stderr
    offline = cluster.json("plan", "job.yaml", "--inventory", "saved.yaml", "--calibration", "runs.yaml")
    assert offline["memory"]["basis"] == "measured"
    assert abs(offline["memory"]["peak_gib"] - after["memory"]["peak_gib"]) < 1e-3
    (cluster.work / "job.yaml").write_text((cluster.work / "job.yaml").read_text().replace("micro: 4", "micro: 2"))
    other = cluster.json("plan", "job.yaml")
    (says,) = [one["says"] for one in other["warnings"] if one["code"] == "memory_unknown"]
    assert "last time micro-batch 4 on 1 rank took" in says


def test_a_debug_run_is_kept_like_a_probe_and_a_waiting_step_is_named(probe):
    cluster = probe.cluster
    (cluster.work / "t.py").write_text(textwrap.dedent("""\
        import os, time, torch
        class Slow(torch.utils.data.Dataset):
            def __len__(self): return 1000
            def __getitem__(self, i):
                time.sleep(0.01)
                return torch.ones(4)
        micro, passes = int(os.environ["LAUNCH_MICRO_BATCH"]), int(os.environ["LAUNCH_GRAD_ACCUM"])
        weight = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.AdamW([weight])
        data = iter(torch.utils.data.DataLoader(Slow(), batch_size=micro))
        for step in range(int(os.environ.get("LAUNCH_MAX_STEPS", 3))):
            for _ in range(passes): (next(data) @ weight).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        open("done", "w").write(str(step + 1))
        """))
    (cluster.work / "job.yaml").write_text(
        f"name: slow\ndevice: cpu\ngpus: 0\nvenv: {VENV}\nbatch: {{global: 8, micro: 2}}\nsteps: 50\nrun: python t.py\n")
    done = cluster.launch("submit", "job.yaml", "--debug", timeout=120)
    assert (cluster.work / "done").read_text() == "10", "a debug run ends by itself"
    assert "for 16 samples (measured)" in done.stderr
    after = cluster.json("plan", "job.yaml")
    assert after["memory"]["basis"] == after["duration"]["basis"] == "probed"
    assert after["duration"]["bound"] == "data loader"
    assert "loader_bound" in [one["code"] for one in after["warnings"]]
