// docs/preflight.md as text: the table of preflight/codes.cc for readers.
#include "preflight/codes.h"

namespace launch {
namespace {

constexpr std::string_view kOpening = R"(# Preflight

<!-- Made by the program preflight-doc: the table of codes from preflight/codes.cc, all else from
     preflight/preflight_document.cc; edit there. -->

What is known to stop a run is looked for before it starts: by `launch check`, by `launch submit`, and
on the nodes themselves in the job's own environment just before its ranks start. The rules are the
same in all three places (folder `preflight/`), so `check` says what a refusal would say.

```sh
launch check job.yaml                        # all that a start does on its nodes, but for the ranks
launch check job.yaml --known                # only what the nodes have told before; starts nothing
launch check job.yaml --inventory nodes.yaml # the same without a cluster
launch check gpu01 gpu02                     # nodes without a job; none named: all of them
launch check 12                              # what was looked at before job 12 started, also what passed
launch check job.yaml --fix                  # a script of remedies, one block for each node
launch check job.yaml -o json                # findings, checks, passed: docs/cli-json.md
launch check --network                       # every pair measured, NCCL over free GPUs; or --network gpu01 gpu02
launch check --network job.yaml              # the same in that job's own environment
```

A job whose nodes are free is checked as it would be started: its `setup` runs, its interpreter is asked
for torch, paths and directories are tried, at the level that it asks for. While it would have to wait,
`check` says so and judges by what the nodes have told before.

`preflight` and `doctor` are other names of `check`. It prints a line for every check that was made,
what passed as well as what failed:

```
CHECK            RESULT  NODE  SAYS
driver           pass    gh01  driver 570.124.06 (CUDA 12.8)
CUDA runtime     pass    gh01  CUDA 12.8 (/usr/local/cuda) runs on this driver
torch installed  pass    gh01  torch 2.0.1+cpu of /usr/bin/python3 on gh01 is installed
torch CUDA       fail    gh01  torch 2.0.1+cpu of /usr/bin/python3 on gh01 is built without CUDA: ...
GPU usable       fail    gh01  not by this torch
```

Each warning and error stands below the table with what was seen and with its remedies, the best one
first. Versions and places in remedies come from one file, `configs/remedies.yaml`.

| Severity | Line | Effect |
|---|---|---|
| error | fail | `check` and `submit` exit with 4 and no job is made; found at the start, the job ends FAILED(PREFLIGHT). `submit --force` starts in spite of it, which is recorded |
| warning | warn | the job starts; the warning is shown after `submit` and kept with the job |
| notice | note | nothing is wrong; its evidence is shown by `-o wide` and in JSON, where `result` is pass with a code |

## Levels

`preflight: {level: none | quick | full}` in the job, or `--preflight LEVEL`:

| Level | Before each start |
|---|---|
| `none` | paths, the workdir's marker and the way to rank 0, because a start needs them; nothing that judges the node |
| `quick` (default) | the same, disks, /dev/shm, clocks, and for GPU jobs the job's own interpreter on every node, compared between the nodes; for CPU jobs whether one that they name runs |
| `full` | the same, the interpreter also for CPU jobs; then, on several nodes, all of them speak with each other |

That last part is one program, run on all nodes at the same moment by the job's interpreter in the
environment that its ranks will have (`GLOO_SOCKET_IFNAME`, `NCCL_*`, `LD_LIBRARY_PATH`). Every pair of
nodes opens a connection on a free port and measures latency and the slower direction of its speed over
plain TCP; where all of them have torch, an all-reduce through gloo must give the right sum. How it went
is the event `attempt.network_tested`; what is wrong is a finding. What was measured is kept for later
plans ([planning.md](planning.md)).

For a job with GPUs, one GPU of each node then takes part in an all-reduce through the NCCL that the job's
own torch brings:

- It is a program of its own, `launch-nccl-test`, so that a collective that hangs holds nobody. It is built
  where nvcc is found (cmake says so, or why not) and lies beside the agent.
- Where the program is missing, no GPU is seen or there is no libnccl, the line NCCL says why nothing was
  tested.
- It must give the right sum, and NCCL must not speak plain TCP on a node that has an InfiniBand or RoCE
  adapter (`network_slow`).

What each level costs is in [performance.md](performance.md#checks-before-a-start).

## The network alone

`launch check --network` runs the same test between nodes of your choice, without a start. It prints a line for
each pair, and says which interface they met over.

- It is a short job like any other: it waits for free cores, takes no GPU, and stays in `queue -a`.
- Where each of the nodes has a GPU free, a second job takes one of each and sums by NCCL. Otherwise a note
  says which node has none.

## Where the facts come from

The interpreter is asked with the variables that the job has: also those of Python, torch and CUDA in `env:`,
and for a conda environment what its `activate.d` scripts leave. For `image:` it is asked inside a container
that is started as a rank's is. An image that is not on the node yet is not fetched for that: then the start
is the first to say it. What an image lacks is mended by another image, so the remedy names one.

What a node is (its interpreters, driver and limits) is known ahead. It is kept for a day by the content of the
interpreter's packages and the driver's version (ten minutes when the answer was bad), and looked at again
at the start.

## Codes

The list is closed; scripts may rely on the codes.

| Code | Check | Severity | What is looked at | What to do |
|---|---|---|---|---|
)";

}  // namespace

std::string PreflightDocument() {
  std::string text(kOpening);
  for (const PreflightCode& row : PreflightCodes()) {
    text += "| `" + std::string(row.code) + "` | " + std::string(row.check) + " | " +
            std::string(row.severity) + " | " + std::string(row.looks_at) + " | " +
            std::string(row.remedy) + " |\n";
  }
  return text;
}

}  // namespace launch
