"""Says where it runs and counts to ten, the way a training script reports its steps."""

import os
import time

print("hello from rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
for name in ("LAUNCH_JOB_ID", "LAUNCH_ATTEMPT", "LAUNCH_DEVICE", "MASTER_ADDR", "MASTER_PORT"):
    print(f"{name}={os.environ.get(name, '')}", flush=True)
for step in range(1, 11):
    time.sleep(0.1)
    print(f"step {step}/10", flush=True)
