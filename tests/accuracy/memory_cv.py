#!/usr/bin/env python3
"""Cross-validates the memory model: its fitted constants are fitted again without one source, and the
error is measured on that source.

    memory_cv.py --program BIN/predict-memory CASES.csv [--fit] [-v]

The program itself predicts (`--set NAME=VALUE`), so there is no second implementation. A source is the
repository (or page) that published a row. A constant that the remaining rows say nothing about falls
back to its prior: what one would write without any of these measurements. --fit fits on all rows and
prints the constants of planner/cost/memory_constants.h.
"""
import argparse
import csv
import math
import re
import statistics
import subprocess

# name: (prior, values tried). Priors: no knowledge of variable lengths beyond a factor of
# two, the fp32 gradient of DeepSpeed's step, figures in the unit they are printed in.
FITTED = {
    "logits_chunked": (4.0, [0, 1, 2, 3, 4, 6]),
    "logits_compiled": (10.0, [4, 6, 8, 10]),
    "variable_length": (1.0, [0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]),
    "typical_sample": (1e9, [2000, 2500, 3000, 4000, 6000, 1e9]),
    "sub_group_bytes": (4.0, [4, 8, 12, 16]),
    "unstated_unit": (1.0, [1.0, 1.0737]),
    "fragmentation": (0.12, [0.0, 0.05, 0.08, 0.12, 0.16, 0.2]),
}
PRIOR_WEIGHT = 0.02  # rows: breaks ties only
CAP = 0.30           # a row that no constant explains must not pull on all of them


def peak_gib(row):
    value = float(row["measured_peak_gb"])
    return value * 1e9 / 2**30 if row["unit"] == "GB" else value


def comparable(row):
    return (
        row["measured_peak_gb"]
        and all(row[c] for c in ("params", "layers", "hidden", "seq", "vocab"))
        and row["fits"] == "yes"
        and "upper bound" not in row["source"]
    )


def source_of(row):
    first = row["source"].split(" ")[0].split("#")[0]
    match = re.match(r"[\w.-]+/[\w.-]+", first)
    return match.group(0) if match else first


class Model:
    def __init__(self, program, path):
        self.program, self.path, self.cache = program, path, {}

    def predict(self, constants):
        key = tuple(sorted(constants.items()))
        if key not in self.cache:
            command = [self.program, self.path]
            for name, value in constants.items():
                command += ["--set", f"{name}={value!r}"]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows = csv.DictReader(out.splitlines())
            self.cache[key] = {r["id"]: float(r["peak_gib"]) for r in rows if r["peak_gib"]}
        return self.cache[key]

    def errors(self, constants, rows):
        predicted = self.predict(constants)
        return {r["id"]: predicted[r["id"]] / peak_gib(r) - 1 for r in rows}

    def loss(self, constants, rows):
        sizes = [min(CAP, abs(e)) for e in self.errors(constants, rows).values()]
        distance = sum(constants[n] != prior for n, (prior, _) in FITTED.items())
        return sum(sizes) + PRIOR_WEIGHT * CAP * distance

    def fit(self, rows):
        best = {name: prior for name, (prior, _) in FITTED.items()}
        least = self.loss(best, rows)
        for _ in range(4):
            before = least
            for name, (_, values) in FITTED.items():
                for value in values:
                    trial = dict(best, **{name: value})
                    loss = self.loss(trial, rows)
                    if loss < least - 1e-9:
                        best, least = trial, loss
            if least == before:
                break
        return best


def summary(errors):
    sizes = sorted(abs(e) for e in errors)
    p90 = sizes[min(len(sizes) - 1, math.ceil(0.9 * len(sizes)) - 1)]
    under = sum(e < -0.10 for e in errors) / len(errors)
    return (
        f"rows {len(sizes):3d}  median {100 * statistics.median(sizes):5.1f} %  "
        f"mean {100 * statistics.mean(sizes):5.1f} %  P90 {100 * p90:5.1f} %  "
        f"under by more than 10 %: {100 * under:.0f} %"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases")
    parser.add_argument("--program", required=True)
    parser.add_argument("--fit", action="store_true", help="fit on all rows and print the constants")
    parser.add_argument("-v", action="store_true", help="constants of every fold")
    args = parser.parse_args()
    rows = [r for r in csv.DictReader(open(args.cases)) if comparable(r)]
    model = Model(args.program, args.cases)
    if args.fit:
        best = model.fit(rows)
        for name, value in best.items():
            print(f"{name} = {value}")
        print("fitted on all:", summary(list(model.errors(best, rows).values())))
        return
    priors = {name: prior for name, (prior, _) in FITTED.items()}
    print("as built:              ", summary(list(model.errors({}, rows).values())))
    print("nothing fitted:        ", summary(list(model.errors(priors, rows).values())))
    held_out = {}
    for source in sorted({source_of(r) for r in rows}):
        inside = [r for r in rows if source_of(r) != source]
        outside = [r for r in rows if source_of(r) == source]
        best = model.fit(inside)
        errors = model.errors(best, outside)
        held_out.update(errors)
        print(f"  without {source:32s}", summary(list(errors.values())))
        if args.v:
            print("   ", {n: v for n, v in best.items() if v != FITTED[n][0]})
    print("one source left out:   ", summary(list(held_out.values())))


if __name__ == "__main__":
    main()
