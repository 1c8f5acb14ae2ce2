#!/usr/bin/env python3
"""Cross-validates the time model: its fitted constants are fitted again without a group of rows, and
the error is measured on that group.

    throughput_cv.py --program BIN/predict-throughput CASES.csv [--anchors ANCHORS.csv] [--fit]

The program itself predicts (`--set NAME=VALUE`), so there is no second implementation. --fit only
fits on all rows and prints the constants of planner/cost/time_constants.h.

Groups: the value of a column (a model, a GPU, a sequence length, a precision ...) and ten random
tenths. A table that has one source cannot leave a source out; for that there are the anchors, rows of
other trainers and papers, which never take part in a fit here.
"""
import argparse
import csv
import math
import random
import statistics
import subprocess

# Start of the search; the regularisation pulls towards it with the weight of a hundredth of a row.
START = {
    "matmul_overhead": 8000.0,
    "attention_overhead": 900.0,
    "elementwise_bytes": 250.0,
    "logit_bytes": 30.0,
    "recompute_cost": 0.8,
    "gather_exposed": 0.7,
    "hop_seconds": 4e-6,
}
ROBUST = 0.06  # residuals beyond 6 % count linearly: some rows are not explained by any column


class Model:
    def __init__(self, program):
        self.program = program

    def logs(self, path, constants):
        """Logarithms of the predicted tokens/s by id."""
        command = [self.program]
        for name, value in constants.items():
            command += ["--set", f"{name}={value:.9g}"]
        text = subprocess.run(command + [path], capture_output=True, text=True, check=True).stdout
        rows = csv.DictReader(text.splitlines())
        return {r["id"]: math.log(float(r["tokens_per_s_per_gpu"])) for r in rows}


def solve(matrix, vector):
    """Gaussian elimination with pivoting; the matrices are 7 x 7 and positive definite."""
    size = len(vector)
    rows = [list(r) + [v] for r, v in zip(matrix, vector)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    result = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * result[j] for j in range(i + 1, size))
        result[i] = (rows[i][size] - known) / rows[i][i]
    return result


def fit(model, path, truth, ids, steps=8):
    names = list(START)
    point = {n: math.log(v) for n, v in START.items()}
    start = dict(point)
    for _ in range(steps):
        at = {n: math.exp(v) for n, v in point.items()}
        base = model.logs(path, at)
        residual = [base[i] - truth[i] for i in ids]
        weight = [min(1.0, ROBUST / max(abs(e), 1e-9)) for e in residual]
        columns = []
        for name in names:
            moved = model.logs(path, dict(at, **{name: at[name] * 1.001}))
            columns.append([(moved[i] - base[i]) / math.log(1.001) for i in ids])
        matrix = [
            [sum(w * a * b for w, a, b in zip(weight, ca, cb)) + (1e-3 if ca is cb else 0)
             for cb in columns]
            for ca in columns
        ]
        vector = [
            -sum(w * a * e for w, a, e in zip(weight, c, residual)) - 1e-3 * (point[n] - start[n])
            for n, c in zip(names, columns)
        ]
        for name, step in zip(names, solve(matrix, vector)):
            point[name] += max(-0.4, min(0.4, step))
    return {n: math.exp(v) for n, v in point.items()}


def summary(errors):
    size = sorted(abs(e) for e in errors)
    p90 = size[min(len(size) - 1, math.ceil(0.9 * len(size)) - 1)]
    return (f"{len(size):4d} rows  mean {100 * statistics.mean(size):5.1f} %  "
            f"median {100 * statistics.median(size):5.1f} %  P90 {100 * p90:5.1f} %")


def errors_of(predicted, truth, ids):
    return [math.exp(predicted[i] - truth[i]) - 1 for i in ids]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases")
    parser.add_argument("--program", required=True)
    parser.add_argument("--anchors")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()

    with open(options.cases, newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["tokens_per_s_per_gpu"]]
    truth = {r["id"]: math.log(float(r["tokens_per_s_per_gpu"])) for r in rows}
    ids = list(truth)
    model = Model(options.program)

    print("as built          ", summary(errors_of(model.logs(options.cases, {}), truth, ids)))
    best = fit(model, options.cases, truth, ids)
    print("fitted on all rows", summary(errors_of(model.logs(options.cases, best), truth, ids)))
    print("constants         ", "  ".join(f"{n}={v:.3g}" for n, v in best.items()))
    if not options.fit:
        shuffled = random.Random(1)
        tenth = {i: str(shuffled.randrange(10)) for i in ids}
        groupings = {
            column: {r["id"]: r[column] for r in rows}
            for column in ("source", "model", "gpu", "seq", "n_gpus", "precision", "sharding",
                           "act_ckpt")
        }
        groupings["random tenth"] = tenth
        for name, group in groupings.items():
            values = sorted(set(group.values()))
            if len(values) < 2:
                print(f"without one {name:13s} only one in the table")
                continue
            errors = []
            for value in values:
                kept = [i for i in ids if group[i] != value]
                left = [i for i in ids if group[i] == value]
                constants = fit(model, options.cases, truth, kept)
                errors += errors_of(model.logs(options.cases, constants), truth, left)
            print(f"without one {name:13s}", summary(errors))
    if options.anchors:
        with open(options.anchors, newline="") as file:
            anchors = [r for r in csv.DictReader(file)]
        known = {r["id"]: math.log(float(r["tokens_per_s_per_gpu"])) for r in anchors}
        predicted = model.logs(options.anchors, {})
        for source in sorted({r["source"] for r in anchors}):
            some = [r["id"] for r in anchors if r["source"] == source]
            print(f"other source: {summary(errors_of(predicted, known, some))}  {source}")


if __name__ == "__main__":
    main()
