"""One rank: makes an optimizer step with the library of its first argument, configured by nothing but
what launch gave it, and prints as JSON what the library's own engine says it uses.

    python train_with.py deepspeed CONFIG... | accelerate | fsdp | hf [FLAGS of the trainer]
"""

import json
import os
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 64)
        self.outer = torch.nn.Linear(64, 1)

    def forward(self, x, labels):
        y = self.outer(torch.relu(self.inner(x.to(self.inner.weight.dtype))))
        return {"loss": (y.float().squeeze(-1) - labels.float()).square().mean()}


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 240  # whole batches, so that a share of an epoch is a number of samples

    def __getitem__(self, i):
        x = torch.randn(16, generator=torch.Generator().manual_seed(i))
        return {"x": x, "labels": x.sum()}


def report(**facts):
    if os.environ["RANK"] == "0":
        print("USED " + json.dumps(facts), flush=True)


def import_deepspeed():
    import deepspeed

    # Its shared-memory collectives are C++ compiled at the first start (30 s); gloo is there.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


def of_engine(engine):
    return {
        "global": engine.train_batch_size(),
        "micro": engine.train_micro_batch_size_per_gpu(),
        "accumulate": engine.gradient_accumulation_steps(),
        "stage": engine.zero_optimization_stage(),
        "bf16": engine.bfloat16_enabled(),
        "fp16": engine.fp16_enabled(),
        "dtype": str(next(engine.module.parameters()).dtype),
        "ranks": engine.dp_world_size,
        "clipping": engine.gradient_clipping(),
        "steps": engine.global_steps,
    }


def with_deepspeed(configs):
    deepspeed = import_deepspeed()
    data = Samples()
    for config in configs:
        net = Net()
        engine, *_ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters()), config=config)
        for _ in range(engine.gradient_accumulation_steps()):
            rows = [data[i] for i in range(engine.train_micro_batch_size_per_gpu())]
            loss = engine(torch.stack([r["x"] for r in rows]), torch.stack([r["labels"] for r in rows]))["loss"]
            engine.backward(loss)
            engine.step()
        report(**of_engine(engine))


def with_accelerate():
    if "ACCELERATE_USE_DEEPSPEED" in os.environ:
        import_deepspeed()
    from accelerate import Accelerator

    accelerator = Accelerator()
    net = Net()
    loader = torch.utils.data.DataLoader(Samples(), batch_size=int(os.environ["LAUNCH_MICRO_BATCH"]))
    net, optimizer, loader = accelerator.prepare(net, torch.optim.AdamW(net.parameters()), loader)
    passes = 0
    for batch in loader:
        with accelerator.accumulate(net):
            accelerator.backward(net(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        passes += 1
        if accelerator.sync_gradients:
            break
    facts = of_engine(net) if hasattr(net, "zero_optimization_stage") else {}
    report(
        type=accelerator.distributed_type.name,
        precision=accelerator.mixed_precision,
        processes=accelerator.num_processes,
        passes=passes,
        **facts,
    )


def with_fsdp():
    import torch.distributed as dist
    from accelerate.utils import FullyShardedDataParallelPlugin
    from torch.distributed.fsdp import FullyShardedDataParallel

    dist.init_process_group("gloo")
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
    net = FullyShardedDataParallel(
        Net(),
        sharding_strategy=plugin.sharding_strategy,
        cpu_offload=plugin.cpu_offload,
        mixed_precision=plugin.mixed_precision_policy,
        use_orig_params=plugin.use_orig_params,
        device_id=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(net.parameters())
    batch = next(iter(torch.utils.data.DataLoader(Samples(), batch_size=int(os.environ["LAUNCH_MICRO_BATCH"]))))
    net(**batch)["loss"].backward()
    optimizer.step()
    report(
        sharding=net.sharding_strategy.name,
        dtype=str(net.mixed_precision.param_dtype),
        shard=sum(p.numel() for p in net.parameters()),
        whole=sum(p.numel() for p in Net().parameters()),
        offload=bool(net.cpu_offload.offload_params),
        checkpointing=plugin.activation_checkpointing,
        wraps=getattr(plugin.auto_wrap_policy, "__name__", None),
        state_dict=plugin.state_dict_type.name,
    )


def with_hf(flags):
    if "ACCELERATE_USE_DEEPSPEED" in os.environ or "--deepspeed" in flags:
        import_deepspeed()
    import transformers.training_args
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    # The plan is one for GPUs, which this machine has none of to ask.
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(flags)
    trainer = Trainer(model=Net(), args=args, train_dataset=Samples())
    trainer.train()
    facts = of_engine(trainer.deepspeed) if trainer.is_deepspeed_enabled else {}
    report(
        type=trainer.accelerator.distributed_type.name,
        processes=trainer.accelerator.num_processes,
        precision=trainer.accelerator.mixed_precision,
        trainer_micro=trainer.args.per_device_train_batch_size,
        trainer_accumulate=trainer.args.gradient_accumulation_steps,
        trainer_steps=trainer.state.global_step,
        samples=trainer.state.epoch * len(Samples()),
        **facts,
    )


if __name__ == "__main__":
    library = sys.argv[1]
    rest = sys.argv[2:]
    if library == "deepspeed":
        with_deepspeed(rest)
    elif library == "accelerate":
        with_accelerate()
    elif library == "fsdp":
        with_fsdp()
    else:
        with_hf(rest)
    if torch.distributed.is_initialized():  # none leaves while another still talks to it
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
