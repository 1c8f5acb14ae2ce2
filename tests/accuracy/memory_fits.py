#!/usr/bin/env python3
"""Asks the memory model about runs that are known to have trained: a table of throughput says of every
row that it fitted on the GPU it names.

    memory_fits.py --program BIN/predict-memory THROUGHPUT.csv [--pure] [-v] [--out CASES.csv]

The rows are Composer's: FSDP with fp32 shards whatever the precision column calls it (its "bf16" and
"amp_bf16" are both autocast over fp32 shards; --pure takes "bf16" for 16-bit shards instead), its
decoupled AdamW, flash attention, one embedding shared with the head. Prints how many rows the model
calls yes, tight and no, and with -v the rows it refuses with the terms of the phase that decides.
"""
import argparse
import collections
import csv
import os
import subprocess
import tempfile

VOCABULARY = 50368  # of the tokenizer these models share, padded
SMALL_HEADS_BELOW = 2048  # hidden; heads of 64, else of 128: flash attention keeps the same
COLUMNS = (
    "id model params layers hidden heads kv_heads seq vocab micro_batch precision optimizer strategy "
    "zero_stage offload act_ckpt flash_attn n_gpus gpu gpu_mem_gb framework metric unit loss lora_rank "
    "tied variable_length measured_peak_gb fits source"
).split()


def memory_row(row, pure):
    precision = {"amp_fp8": "fp8_fsdp_fp32params", "bf16": "bf16_pure" if pure else None}
    heads = str(int(row["hidden"]) // (64 if int(row["hidden"]) < SMALL_HEADS_BELOW else 128))
    return {
        **{name: row[name] for name in COLUMNS if name in row},
        "heads": heads,
        "kv_heads": heads,
        "vocab": str(VOCABULARY),
        "precision": precision.get(row["precision"]) or "bf16_fsdp_fp32params",
        "optimizer": "decoupled_adamw",
        "strategy": "fsdp_grad_op" if "GRAD" in row["sharding"] else "fsdp_full",
        "zero_stage": "2" if "GRAD" in row["sharding"] else "3",
        "offload": "none",
        "flash_attn": "yes",
        "framework": "llm-foundry",
        "metric": "process",
        "unit": "GiB",
        "loss": "full",
        "tied": "yes",
        "fits": "yes",
    }


def run(program, path, *flags):
    command = [program, path, *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases")
    parser.add_argument("--program", required=True)
    parser.add_argument("--pure", action="store_true", help='"bf16" means 16-bit shards')
    parser.add_argument("--out", help="also write the rows as a table of memory cases")
    parser.add_argument("-v", action="store_true", help="print the rows that are refused")
    args = parser.parse_args()
    with open(args.cases, newline="") as table:
        rows = [memory_row(r, args.pure) for r in csv.DictReader(table)]
    with tempfile.TemporaryDirectory() as folder:
        path = args.out or os.path.join(folder, "cases.csv")
        with open(path, "w", newline="") as table:
            writer = csv.DictWriter(table, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)
        answers = {r["id"]: r for r in csv.DictReader(run(args.program, path))}
        terms = dict(line.split(" ", 1) for line in run(args.program, path, "--terms"))
    if args.v:
        for row in rows:
            answer = answers[row["id"]]
            if answer["fits"] == "no":
                print(row["id"], row["model"], f"{row['micro_batch']}x{row['seq']}", "on", row["n_gpus"],
                      row["gpu"], row["act_ckpt"], f"{answer['peak_gib']} GiB:", terms[row["id"]])
    counts = collections.Counter(a["fits"] for a in answers.values())
    print(f"{len(rows)} runs that trained:", ", ".join(f"{counts[v]} {v}" for v in ("yes", "tight", "no")))


if __name__ == "__main__":
    main()
