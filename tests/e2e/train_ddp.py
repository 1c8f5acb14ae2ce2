"""The two-process job of story 002: a regression whose losses are the same in every launcher."""

import argparse, os, sys, torch, torch.distributed as dist

# torch 2.13 sometimes aborts in its own clean-up at the interpreter's end, under every launcher.
sys.exit = os._exit
p = argparse.ArgumentParser()
p.add_argument("--out", default="out")
p.add_argument("--resume-from-checkpoint", default="")
p.add_argument("--die-at", type=int, default=0)
a = p.parse_args()
micro, accum = int(os.environ["LAUNCH_MICRO_BATCH"]), int(os.environ["LAUNCH_GRAD_ACCUM"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randn(2500, 16)
y = x @ torch.randn(16, 1) + 0.1 * torch.randn(2500, 1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
step = 0
if a.resume_from_checkpoint:
    s = torch.load(os.path.join(a.resume_from_checkpoint, "state.pt"))
    model.module.load_state_dict(s["model"])
    opt.load_state_dict(s["opt"])
    step = s["step"]
    print(f"resumed at step {step}", flush=True)
batch = micro * accum * world
per_epoch = -(-len(x) // batch)
total = 3 * per_epoch
while step < total:
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(step // per_epoch))
    idx = order[(step % per_epoch) * batch:][:batch]
    loss_sum = 0.0
    opt.zero_grad()
    for part in idx[rank::world].split(micro):
        loss = torch.nn.functional.mse_loss(model(x[part]), y[part], reduction="sum") * world / len(idx)
        loss.backward()
        loss_sum += loss.item() / world
    opt.step()
    step += 1
    t = torch.tensor(loss_sum)
    dist.all_reduce(t)
    if rank == 0:
        print(f"{step}/{total} loss {t.item():.6f} batch {batch}", flush=True)
    if a.die_at == step and not a.resume_from_checkpoint:
        sys.exit(33)
    if step % per_epoch == 0 and rank == 0:
        d = os.path.join(a.out, f"checkpoint-{step}")
        os.makedirs(d + ".tmp", exist_ok=True)
        torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "step": step}, d + ".tmp/state.pt")
        with open(d + ".tmp/trainer_state.json", "w") as f:
            f.write('{"global_step": %d}' % step)
        os.rename(d + ".tmp", d)
dist.barrier()  # a rank that leaves early can make gloo abort the other at its end
dist.destroy_process_group()
sys.exit(0)
