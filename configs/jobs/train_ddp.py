"""Trains a small transformer to add: data parallel, with checkpoints and resume.

Runs under `launch submit ddp.yaml`, and as well under plain `torchrun --nproc-per-node=2 train_ddp.py`.
The data are made here: sums such as "47+8=55", of which the model learns to write the answer.
"""

import argparse
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

WORDS = "0123456789+= "
LENGTH = 9  # "99+99=198"


def make_sums(count, seed):
    """Sums as indices into WORDS, and a mask of the characters behind the equals sign."""
    random = torch.Generator().manual_seed(seed)
    left = torch.randint(0, 100, (count,), generator=random).tolist()
    right = torch.randint(0, 100, (count,), generator=random).tolist()
    texts = [f"{a}+{b}={a + b}".ljust(LENGTH) for a, b in zip(left, right)]
    words = torch.tensor([[WORDS.index(c) for c in text] for text in texts])
    answers = torch.zeros_like(words, dtype=torch.bool)
    for row, text in enumerate(texts):
        answers[row, text.index("=") + 1 :] = True
    return words, answers


class Adder(nn.Module):
    def __init__(self, width=64, layers=2):
        super().__init__()
        self.word = nn.Embedding(len(WORDS), width)
        self.place = nn.Parameter(torch.zeros(LENGTH - 1, width))
        block = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(WORDS))
        mask = torch.full((LENGTH - 1, LENGTH - 1), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, words):
        return self.head(self.blocks(self.word(words) + self.place, mask=self.mask))


def save(out, step, model, optimizer):
    """A directory checkpoint-N that appears whole or not at all."""
    final = os.path.join(out, f"checkpoint-{step}")
    part = final + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
        os.path.join(part, "state.pt"),
    )
    with open(os.path.join(part, "trainer_state.json"), "w") as file:
        json.dump({"global_step": step}, file)
    shutil.rmtree(final, ignore_errors=True)
    os.rename(part, final)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.environ.get("LAUNCH_CHECKPOINT_DIR") or "out")
    parser.add_argument("--resume", default=os.environ.get("LAUNCH_RESUME_FROM", ""))
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--save-every", type=int, default=64, help="steps between checkpoints")
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate")
    parser.add_argument("--die-at", type=int, default=0, help="exit 33 at this step of a fresh run")
    arguments = parser.parse_args()

    cuda = os.environ.get("LAUNCH_DEVICE", "cpu") == "cuda"
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")
    dist.init_process_group(os.environ.get("LAUNCH_BACKEND", "nccl" if cuda else "gloo"))
    rank, world = dist.get_rank(), dist.get_world_size()
    micro = int(os.environ.get("LAUNCH_MICRO_BATCH", "16"))
    accumulate = int(os.environ.get("LAUNCH_GRAD_ACCUM", "2"))
    batch = micro * accumulate * world

    torch.manual_seed(0)
    words, answers = make_sums(arguments.samples, seed=1)
    model = Adder().to(device)
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
    step = 0
    if arguments.resume:
        state = torch.load(os.path.join(arguments.resume, "state.pt"), map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        print(f"resumed at step {step} from {arguments.resume}", flush=True)
    else:
        print(f"rank {rank} of {world} on {device}: starting", flush=True)

    per_epoch = -(-len(words) // batch)
    total = arguments.epochs * per_epoch
    if step >= total and rank == 0:
        print(f"nothing left to train: {arguments.resume} is the end of this run", flush=True)
    since, seen = time.monotonic(), 0
    while step < total:
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(len(words), generator=torch.Generator().manual_seed(epoch))
        chosen = order[place * batch :][:batch]
        count = answers[chosen].sum().item()  # over all ranks: the loss is a mean over answers
        optimizer.zero_grad()
        loss_sum = torch.zeros((), device=device)
        parts = chosen[rank::world].split(micro)
        for index, part in enumerate(parts):
            inputs = words[part].to(device)
            guess = parallel(inputs[:, :-1])
            wanted = answers[part][:, 1:].to(device)
            loss = cross_entropy(guess[wanted], inputs[:, 1:][wanted], reduction="sum") / count
            loss_sum += loss.detach()
            # DDP averages the gradients of the ranks; our loss is a share of one mean.
            (loss * world).backward()
        optimizer.step()
        step += 1
        seen += len(chosen)
        dist.all_reduce(loss_sum)
        if rank == 0 and (step % 8 == 0 or step == total):
            rate = seen / (time.monotonic() - since)
            print(f"step {step}/{total} loss {loss_sum.item():.4f} {rate:.0f} samples/s", flush=True)
            since, seen = time.monotonic(), 0
        if arguments.die_at == step and not arguments.resume:
            raise SystemExit(33)
        if step % arguments.save_every == 0:
            if rank == 0:
                save(arguments.out, step, model, optimizer)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
