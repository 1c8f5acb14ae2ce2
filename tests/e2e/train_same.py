"""Trains a small net for a few steps with one library, and prints the loss of rank 0 at each of them:
the same numbers, to the last digit, under launch and under the library's own launcher.

    python train_same.py deepspeed | accelerate | hf | fsdp2 | fabric
"""

import os
import sys

import torch

STEPS = 5
BATCH = 4


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(16, 64)
        self.outer = torch.nn.Linear(64, 1)

    def forward(self, x, labels):
        y = self.outer(torch.relu(self.inner(x)))
        return {"loss": (y.squeeze(-1) - labels).square().mean()}


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = torch.randn(16, generator=torch.Generator().manual_seed(i))
        return {"x": x, "labels": x.sum()}


def rank():
    return int(os.environ["RANK"])


def batches():
    """This rank's batches, by position."""
    world = int(os.environ["WORLD_SIZE"])
    data = Samples()
    for step in range(STEPS):
        rows = [data[(step * world + rank()) * BATCH % 64 + i] for i in range(BATCH)]
        yield {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def tell(name, step, loss):
    if rank() == 0:
        print(f"{name} step {step} loss {float(loss)!r}", flush=True)


def adam(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-2)


def with_deepspeed():
    import deepspeed

    # Collectives within one host are C++ that DeepSpeed compiles at its first start (30 s and more);
    # between hosts they are gloo's in any case.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    for stage in range(4):
        net = Net()
        engine, *_ = deepspeed.initialize(model=net, optimizer=adam(net), config={
            "train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 1, "steps_per_print": 1000,
            "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True})
        assert engine.zero_optimization_stage() == stage
        assert engine.dp_world_size == int(os.environ["WORLD_SIZE"]) > 1
        for step, batch in enumerate(batches(), 1):
            loss = engine(**batch)["loss"]
            engine.backward(loss)
            engine.step()
            tell(f"zero{stage}", step, loss)


def with_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator()
    assert accelerator.num_processes == int(os.environ["WORLD_SIZE"]) > 1
    net = Net()
    net, optimizer = accelerator.prepare(net, adam(net))
    for step, batch in enumerate(batches(), 1):
        loss = net(**batch)["loss"]
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        tell("accelerate", step, loss)


def with_hf():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Tell(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in logs:
                tell("hf", state.global_step, logs["loss"])

    args = TrainingArguments(
        output_dir="out", max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=1e-2, logging_steps=1,
        use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, seed=0)
    Trainer(model=Net(), args=args, train_dataset=Samples(), callbacks=[Tell()]).train()


def with_fsdp2():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    net = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (net.inner, net.outer, net):
        fully_shard(part, mesh=mesh)
    optimizer = adam(net)
    for step, batch in enumerate(batches(), 1):
        loss = net(**batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tell("fsdp2", step, loss)


def with_fabric():
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp",
                    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]))
    fabric.launch()
    assert fabric.world_size == int(os.environ["WORLD_SIZE"]) > 1
    net = Net()
    net, optimizer = fabric.setup(net, adam(net))
    for step, batch in enumerate(batches(), 1):
        loss = net(**batch)["loss"]
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        tell("fabric", step, loss)


if __name__ == "__main__":
    library = next(word for word in sys.argv[1:] if not word.startswith("-"))
    globals()[f"with_{library}"]()
    if torch.distributed.is_initialized():  # none leaves while another still talks to it
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
