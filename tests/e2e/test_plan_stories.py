"""Plans that users asked for, offline: the real program over saved inventories, no cluster. S000_4 is story 4 of user 0."""

import json
import os
import subprocess

import pytest

from conftest import BIN, ROOT

CLUSTERS = ROOT / "configs/clusters"
CARDS = {
    "rtx3090": ("NVIDIA GeForce RTX 3090", "8.6", 24576),
    "rtx4090": ("NVIDIA GeForce RTX 4090", "8.9", 24564),
    "a6000": ("NVIDIA RTX A6000", "8.6", 49140),
    "a100-40": ("NVIDIA A100-PCIE-40GB", "8.0", 40960),
    "a100-80": ("NVIDIA A100-SXM4-80GB", "8.0", 81920),
    "h100": ("NVIDIA H100 80GB HBM3", "9.0", 81559),
    "v100-32": ("Tesla V100-SXM2-32GB", "7.0", 32768),
    "p100": ("Tesla P100-PCIE-16GB", "6.0", 16280),
}
LORA_7B = (
    "model: {params: 6738415616, layers: 32, hidden: 4096, heads: 32, vocab: 32000, seq_len: 768, "
    "lora: {rank: RANK, targets: [q_proj, v_proj]}, activation_checkpointing: full}\n"
)
LLAMA_7B = "model: {params: 6738415616, layers: 32, hidden: 4096, heads: 32, vocab: 32000, seq_len: 2048}\n"


def card(name, memory="256GB", node=None):
    """An inventory entry: one x86_64 node of 16 cores with one such card."""
    model, cc, mib = CARDS[name]
    return (
        f"- node: {node or name}\n  arch: x86_64\n  cores: 16\n  threads: 16\n  memory: {memory}\n"
        f'  driver: "550.54"\n  driver_cuda: "12.4"\n'
        f'  addresses: [{{interface: eth0, address: "10.0.0.{1 + list(CARDS).index(name)}"}}]\n'
        f'  gpus: [{{uuid: "GPU-{name}", model: "{model}", cc: "{cc}", memory: {mib}MiB, pci: "0000:01:00.0"}}]\n'
    )


@pytest.fixture
def plan(tmp_path):
    """plan(job text, inventory path or text, *flags) -> (exit code, plan or None, stderr)."""

    def run(job, inventory, *flags, files=()):
        (tmp_path / "job.yaml").write_text("name: story\n" + job)
        for name, text in files:
            (tmp_path / name).write_text(text)
        if isinstance(inventory, str):
            path = tmp_path / "inventory.yaml"
            path.write_text(inventory)
            inventory = path
        done = subprocess.run(
            [BIN / "launch", "plan", "job.yaml", "--inventory", inventory, "-o", "json", *flags],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
            env={**os.environ, "LAUNCH_STATE_DIR": str(tmp_path / "none"), "NO_COLOR": "1"},
        )
        return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr

    return run


def codes(plan):
    return [warning["code"] for warning in plan["warnings"]]


def share(plan):
    return plan["memory"]["peak_gib"] / plan["memory"]["limit_gib"]


def terms_add_up(plan):
    memory = plan["memory"]
    total = sum(term["gib"] for term in memory["terms"] if term["phase"] == memory["phase"])
    assert abs(total - memory["peak_gib"]) < 0.005
    assert memory["interval"][0] <= memory["peak_gib"] <= memory["interval"][1]


def test_S000_4_plan_on_two_gh200_over_ethernet(plan):
    rc, got, err = plan(
        "nodes: 2\ngpus: GH200:1\n" + LLAMA_7B + "batch: {micro: 1, accumulate: 16}\nrun: python t.py\n",
        CLUSTERS / "gh200x2.yaml")
    assert rc == 0, err
    assert got["strategy"] == "zero1" and got["precision"] == "bf16"
    assert "25 Gbit/s" in got["why"]
    assert 88 < got["memory"]["limit_gib"] < 96
    terms_add_up(got)
    envs = [rank["env"] for rank in got["assignments"]]
    assert {env["LOCAL_RANK"] for env in envs} == {"0"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs}) == 1
    assert envs[0]["MASTER_ADDR"] == "10.0.0.1"
    assert {"zero3", "fsdp"} <= {one["strategy"] for one in got["rejected"]}


@pytest.mark.parametrize("name, device, precision, pinned", [
    ("rtx4090", "cuda", ("bf16", "fp16"), True), ("m2max", "mps", ("fp32",), False), ("cpu", "cpu", ("fp32",), False)])
def test_S001_1_device_precision_loader(plan, name, device, precision, pinned):
    inventory = card(name) if name in CARDS else CLUSTERS / f"{name}.yaml"
    rc, got, err = plan("run: python t.py\n", inventory)
    assert rc == 0, err
    assert got["device"] == device and got["precision"] in precision
    assert got["loader"]["pin_memory"] is pinned
    workers = got["loader"]["num_workers"]
    assert workers == 4 if device == "cuda" else workers == 0 if device == "mps" else workers >= 1
    if device == "cuda":
        assert "NVIDIA GeForce RTX 4090" in got["device_reason"]


@pytest.mark.parametrize("line", ["gpus: 2", "nodes: 2", "strategy: zero2"])
def test_S001_2_mps_is_one_device(plan, line):
    rc, _, err = plan(line + "\nrun: python t.py\n", CLUSTERS / "m2max.yaml")
    assert rc == 3 and "one device" in err


def test_S001_2_mps_environment(plan):
    rc, got, err = plan("precision: bf16\nrun: python t.py\n", CLUSTERS / "m2max.yaml")
    assert rc == 0, err
    assert "precision_unsupported" in codes(got)
    env = got["assignments"][0]["env"]
    assert env["PYTORCH_ENABLE_MPS_FALLBACK"] == "1" and env["LAUNCH_DEVICE"] == "mps"
    assert "CUDA_VISIBLE_DEVICES" not in env and not [key for key in env if key.startswith("NCCL_")]


def test_S002_1_precision_table(plan):
    for name in CARDS:
        rc, got, err = plan("precision: auto\ngpus: 1\nrun: python t.py\n", card(name))
        assert rc == 0, err
        assert got["precision"] == ("fp16" if name in ("v100-32", "p100") else "bf16"), name
        assert ("no tensor cores" in got["precision_reason"]) is (name == "p100")
    rc, _, err = plan("precision: bf16\ngpus: 1\nrun: python t.py\n", card("v100-32"))
    assert rc == 3 and "7.0" in err and "8.0" in err
    rc, got, _ = plan("precision: fp16\ngpus: 1\nrun: python t.py\n", card("a100-40"))
    assert rc == 0 and got["precision"] == "fp16"
    rc, got, err = plan("nodes: 2\ngpus: 1\nrun: python t.py\n", card("a100-40") + card("v100-32"))
    assert rc == 0, err
    assert got["precision"] == "fp16" and "V100" in got["precision_reason"]


@pytest.mark.parametrize("rank", [64, 320])
def test_S002_2_batch_table(plan, rank):
    job = "gpus: 1\n" + LORA_7B.replace("RANK", str(rank)) + "batch: {global: 64}\nrun: python t.py\n"
    ranges = {"rtx3090": (4, 8), "a100-40": (8, 16), "a100-80": (16, 32), "v100-32": (4, 8)}
    for name, (low, high) in ranges.items():
        rc, got, err = plan(job, card(name))
        assert rc == 0, err
        batch = got["batch"]
        assert batch["micro"] * batch["accumulate"] == batch["global"] == 64
        assert low <= batch["micro"] <= high, name
        assert got["loader"] == {"num_workers": 4, "pin_memory": True, "persistent_workers": True}
        terms_add_up(got)
    rc, got, _ = plan(job.replace("gpus: 1", "gpus: 4"), CLUSTERS / "a100-40x4.yaml")
    assert rc == 0
    assert got["batch"]["micro"] * got["batch"]["accumulate"] * got["world_size"] == 64
    rc, got, _ = plan(job, card("rtx3090"), "--what-if", "batch.micro=32")
    assert [(row["change"], row["fits"]) for row in got["changes"]] == [("batch.micro=32", "no")]


DS_CONFIG = {
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True},
                          "allgather_bucket_size": 2e8, "reduce_bucket_size": 2e8},
    "gradient_clipping": 1.0,
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
}


def test_S002_3_deepspeed_file(plan, tmp_path):
    rc, got, err = plan(
        "gpus: 4\nstrategy: zero2-offload\n" + LORA_7B.replace("RANK", "64") + "batch: {global: 64}\nrun: torchrun t.py\n",
        CLUSTERS / "a100-40x4.yaml")
    assert rc == 0, err
    text = next(file["text"] for file in got["files"] if file["name"] == "ds_config.json")
    assert "auto" not in text
    config = json.loads(text)
    assert config["zero_optimization"]["stage"] == 2
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    micro, accumulate = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert config["train_batch_size"] == micro * accumulate * 4 == 64
    assert config["bf16"]["enabled"] is True and config["fp16"]["enabled"] is False

    job = "gpus: 4\nbatch: {global: 64, micro: 4}\nrun: torchrun t.py --deepspeed ds_config.json\n"
    own = json.dumps(DS_CONFIG)
    rc, got, err = plan(job, CLUSTERS / "a100-40x4.yaml", files=[("ds_config.json", own)])
    assert rc == 0, err
    read = " ".join(got["read"])
    for words in ("stage 2", "optimizer offload", "2e8", "clipping 1.0"):
        assert words in read
    assert (tmp_path / "ds_config.json").read_text() == own
    assert not [file for file in got["files"] if file["name"] == "ds_config.json"]

    rc, _, err = plan(job, CLUSTERS / "v100-32x4.yaml", files=[("ds_config.json", own)])
    assert rc == 3 and "ds_config.json" in err and "8.0" in err

    wrong = {**DS_CONFIG, "train_batch_size": 63, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}
    rc, _, err = plan(job.replace("batch: {global: 64, micro: 4}\n", ""), CLUSTERS / "a100-40x4.yaml",
                      files=[("ds_config.json", json.dumps(wrong))])
    assert rc == 2 and "63" in err and "64" in err

    misspelled = {**DS_CONFIG, "gradient_accumulation_step": 4}
    rc, got, _ = plan(job, CLUSTERS / "a100-40x4.yaml", files=[("ds_config.json", json.dumps(misspelled))])
    assert rc == 0
    finding = next(one for one in got["warnings"] if one["code"] == "ds_config_unknown_key")
    assert "gradient_accumulation_steps" in finding["remedy"]


def test_S002_6_steps_and_cold_order(plan):
    job = ("gpus: N\n" + LORA_7B.replace("RANK", "64") +
           "batch: {global: 64}\ndataset: {samples: 2500, epochs: 3}\nrun: python t.py\n")
    seconds = {}
    for name, gpus, inventory in [("rtx3090", 1, card("rtx3090")), ("a100-40", 1, card("a100-40")),
                                  ("a100-80", 1, card("a100-80")), ("4xa100", 4, CLUSTERS / "a100-40x4.yaml")]:
        rc, got, err = plan(job.replace("N", str(gpus), 1), inventory)
        assert rc == 0, err
        assert got["steps"] == 120
        duration = got["duration"]
        assert duration["basis"] == "cold" and duration["low"] < duration["seconds"] < duration["high"]
        seconds[name] = duration["seconds"]
    assert seconds["rtx3090"] > seconds["a100-40"] >= seconds["a100-80"] > seconds["4xa100"]
    assert 1.3 <= seconds["rtx3090"] / seconds["a100-40"] <= 3.2


def test_S003_4_conservative_and_aggressive(plan):
    job = ("gpus: 1\nstrategy: zero2-offload\nmodel: {params: 2506172416, layers: 18, hidden: 2048, vocab: 256000, "
           "tied: true, seq_len: 1024, activation_checkpointing: full}\nbatch: {micro: M, accumulate: A}\nrun: python t.py\n")
    for micro, low, high, largest in [(1, 0.50, 0.65, None), (2, 0.70, 0.85, "logits"), (4, 1.00, 1.40, "logits")]:
        rc, got, err = plan(job.replace("M", str(micro), 1).replace("A", str(128 // micro), 1), card("rtx3090"))
        assert rc == 0, err
        assert got["batch"]["global"] == 128
        assert low <= share(got) <= high, micro
        assert ("predicted_out_of_memory" in codes(got)) is (micro == 4)
        memory = got["memory"]
        top = max((t for t in memory["terms"] if t["phase"] == memory["phase"]), key=lambda t: t["gib"])
        assert largest is None or largest in top["name"]
        assert 50 <= got["host_memory"]["gib"] <= 64
    rc, _, err = plan(job.replace("M", "1", 1).replace("A", "128", 1), card("rtx3090", memory="48GB"))
    assert rc == 3 and "HOST_MEM" in err


@pytest.mark.parametrize("block, words", [
    ("model: {params: 0}", "model.params"),
    ("model: {params: -1}", "model.params"),
    ("model: {params: 1000000000000000000}", "params"),
    ("model: {params: 7B, seq_len: 0}", "model.seq_len"),
    ("model: {config: .}", "model.config"),
    ("model: {config: broken.json}", "broken.json"),
    ("model: {config: huge.json}", "huge.json"),
    ("model: {params: 7B, heads: many}", "model.heads"),
    ("model: {config: zebra.json}", 'model_type "zebra"'),
    ("model: {params: 7B, seq_len: 512}\nprocs_per_node: 4\nbatch: {global: 3}", "batch.global 3"),
])
def test_bad_models_are_refused_with_the_field(plan, block, words):
    rc, _, err = plan("gpus: 1\n" + block + "\nrun: python t.py\n", card("a100-80"),
                      files=[("broken.json", "{"), ("zebra.json", '{"model_type": "zebra", "stripes": 7}'), ("huge.json", " " * (100 << 20) if words == "huge.json" else "")])
    assert rc == 2 and words in err


def test_a_gpu_that_no_sheet_knows_is_planned_from_its_facts(plan):
    inventory = card("a100-80").replace("NVIDIA A100-SXM4-80GB", "NVIDIA Experimental X1")
    rc, got, err = plan("gpus: 1\n" + LORA_7B.replace("RANK", "64") + "batch: {global: 64}\nrun: python t.py\n", inventory)
    assert rc == 0, err
    assert any("not in the data sheet" in sentence for sentence in got["memory"]["assumptions"])


def test_the_same_question_has_the_same_answer(plan):
    job = "gpus: 8\n" + LLAMA_7B + "batch: {global: 64}\nsteps: 100\nrun: python t.py\n"
    first, second = (plan(job, CLUSTERS / "a100-80x8.yaml")[1] for _ in range(2))
    assert first == second
    assert first["strategy"] == "zero1"
    peaks = [one["peak_gib"] for one in first["fallbacks"]]
    assert peaks and max(peaks) < first["memory"]["peak_gib"]
    assert all(one["batch"]["global"] == 64 for one in first["fallbacks"])


def test_S001_5_minima_and_measured_times(plan):
    wanted = "gpus: 1\nconstraints: \"gpu_mem>=6GB && cuda>=11.0\"\nrun: python t.py\n"
    assert plan(wanted, card("rtx4090"))[0] == 0
    rc, _, err = plan(wanted, card("rtx4090").replace("24564MiB", "4096MiB"))
    assert rc == 3 and "gpu_mem" in err
    rc, _, err = plan(wanted, card("rtx4090").replace('driver_cuda: "12.4"', 'driver_cuda: "10.2"'))
    assert rc == 3 and "cuda" in err
    runs = "".join(f"- {{job: story, device: {device}, seconds: {seconds}}}\n"
                   for device, seconds in [("RTX4090", 150), ("mps", 300), ("cpu", 1800)])
    for inventory, seconds in [(card("rtx4090"), 150), (CLUSTERS / "m2max.yaml", 300), (CLUSTERS / "cpu.yaml", 1800)]:
        rc, got, err = plan("run: python t.py\n", inventory, "--calibration", "runs.yaml", files=[("runs.yaml", runs)])
        assert rc == 0, err
        assert got["duration"]["basis"] == "measured"
        assert abs(got["duration"]["seconds"] / seconds - 1) <= 0.1
        slower = [one["says"] for one in got["warnings"] if one["code"] == "device_slower" and "12x" in one["says"]]
        assert bool(slower) is (seconds == 1800)
        assert not slower or "RTX4090" in slower[0]


def test_S002_6_measured_times(plan):
    job = "gpus: N\nbatch: {global: 64}\ndataset: {samples: 2500, epochs: 3}\nrun: python t.py\n"
    runs = [("RTX3090", 1, 270), ("A100-40GB", 1, 150), ("A100-80GB", 1, 75), ("A100-40GB", 4, 45)]
    text = "".join(f"- {{job: story, device: {d}, ranks: {n}, global_batch: 64, step_seconds: {s}}}\n" for d, n, s in runs)
    alone = "- {job: story, device: A100-40GB, ranks: 1, global_batch: 64, step_seconds: 150}\n"
    four = CLUSTERS / "a100-40x4.yaml"
    for gpus, inventory, record, low, high in [
            (1, card("rtx3090"), text, 8.99, 9.01), (1, card("a100-40"), text, 4.99, 5.01),
            (1, card("a100-80"), text, 2.49, 2.51), (4, four, text, 1.49, 1.51), (4, four, alone, 1, 2)]:
        rc, got, err = plan(job.replace("N", str(gpus), 1), inventory, "--calibration", "runs.yaml",
                            files=[("runs.yaml", record)])
        assert rc == 0, err
        assert got["duration"]["basis"] == "measured" and got["steps"] == 120
        assert low <= got["duration"]["seconds"] / 3600 <= high


def test_S003_3_the_standard_line_and_its_file(plan):
    config = {"bf16": {"enabled": "auto"}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
              "gradient_accumulation_steps": "auto",
              "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"},
                                    "sub_group_size": 1e9, "reduce_bucket_size": "auto"}}
    line = ("CUDA_VISIBLE_DEVICES=0 DS_BUILD_OPS=0 PYTHONPATH=$PWD:$PYTHONPATH python $(which deepspeed) train.py "
            "--deepspeed zero2_offload.json --per_device_train_batch_size 1 --gradient_accumulation_steps 128 --bf16 True")
    files = [("zero2_offload.json", json.dumps(config))]
    rc, got, err = plan(f"gpus: 4\nrun: {line}\n", CLUSTERS / "a100-40x4.yaml", files=files)
    assert rc == 0, err
    assert got["launcher"] == "deepspeed" and got["processes"]["total"] == 4 and len(got["assignments"]) == 4
    assert got["batch"] == {"global": 512, "micro": 1, "accumulate": 128}
    assert got["strategy"] == "zero2" and got["offload"] == "optimizer"
    assert "PYTHONPATH=$PWD:" in got["command"] and "--local_rank=$LOCAL_RANK" in got["command"]
    no_effect = [one["says"] for one in got["warnings"] if one["code"] == "ds_config_no_effect"]
    assert len(no_effect) == 2 and "offload_param" in no_effect[0] and "sub_group_size" in no_effect[1]
    assert all("visible_devices_set" != one["code"] or "count (1)" in one["says"] for one in got["warnings"])
    plain = "deepspeed train.py --deepspeed --deepspeed_config zero2_offload.json"
    rc, _, err = plan(f"gpus: 4\nrun: {plain}\n", CLUSTERS / "a100-40x4.yaml", files=files)
    assert rc == 2 and "auto" in err and "train_batch_size" in err and "bf16.enabled" in err
