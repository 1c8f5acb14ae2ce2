#include "diagnosis/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "diagnosis/labels.h"
#include "tests/unit/diagnosis/of_log.h"
#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

std::vector<Snippet> AllSnippets() {
  std::vector<Snippet> all;
  for (const auto& part : {MemorySnippets(), EnvironmentSnippets(), CommunicationSnippets(),
                           ProgramSnippets(), HardwareSnippets()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Breaks lines at the last space before `width`, as schedulers and mail do.
std::string Wrapped(std::string_view log, std::size_t width) {
  std::string out;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    while (line.size() > width) {
      std::size_t cut = line.rfind(' ', width);
      if (cut == std::string_view::npos || cut == 0) break;
      out += std::string(line.substr(0, cut)) + "\n";
      line.remove_prefix(cut + 1);
    }
    out += std::string(line) + "\n";
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return out;
}

TEST(Table, HasNoFaults) {
  for (const std::string& fault : Table().Faults()) ADD_FAILURE() << fault;
  for (const CompiledSignatures::Row& row : Table().rows()) {
    const std::string_view label = row.signature->label;
    if (label.empty()) continue;
    EXPECT_EQ(LabelInfoOf(label).label, label);
  }
}

TEST(Table, LabelsAreOrderedAndHaveKnownActions) {
  std::string_view last;
  for (const LabelInfo& info : Labels()) {
    EXPECT_LT(last, info.label);
    last = info.label;
    EXPECT_TRUE(info.action == "no_retry" || info.action == "retry_with_change" ||
                info.action == "retry_elsewhere" || info.action == "retry_same" ||
                info.action == "resume" || info.action == "continue")
        << info.label;
  }
}

TEST(Verdicts, EverySnippetHasItsLabel) {
  for (const Snippet& snippet : AllSnippets()) {
    const Verdict verdict = Of(snippet.log, snippet.exit_code);
    EXPECT_EQ(verdict.label, snippet.label) << snippet.log;
    EXPECT_FALSE(verdict.cause.empty());
    EXPECT_FALSE(verdict.remedy.empty()) << snippet.log;
  }
}

TEST(Verdicts, EveryLabelHasASnippet) {
  for (const LabelInfo& info : Labels()) {
    // Two come from the stacks of ranks and one from the controller, never from a log.
    bool found = info.label == "none" || info.label == "hang" ||
                 info.label == "collective_mismatch" || info.label == "time_limit";
    for (const Snippet& snippet : AllSnippets()) found = found || snippet.label == info.label;
    EXPECT_TRUE(found) << info.label;
  }
}

TEST(Verdicts, TheSameTextWithExitCodeZeroGivesNone) {
  for (const Snippet& snippet : AllSnippets())
    EXPECT_EQ(Of(snippet.log, 0).label, "none") << snippet.log;
}

TEST(Verdicts, BenignLogsGiveNone) {
  for (const std::string_view log : BenignLogs()) {
    EXPECT_EQ(Of(log, 0).label, "none") << log;
    EXPECT_EQ(Of(log, std::nullopt).label, "none") << log;
  }
}

TEST(Verdicts, BenignLinesBeforeAnExceptionDoNotNameIt) {
  for (const std::string_view log : BenignLogs())
    EXPECT_EQ(Of(std::string(log) + "\nValueError: too many values to unpack\n").label,
              "python_exception")
        << log;
}

// What the message names stands in the sentence, and the remedy is for it.
TEST(Verdicts, CausesNameWhatTheMessageNames) {
  struct Case {
    const char* log;
    const char* cause;
    const char* remedy;
  };
  for (const Case& c : {
           Case{"RuntimeError: ResourceExhaustedError: \n\nOut of memory error on GPU 2. Cannot "
                "allocate 1.531250GB memory on GPU 2, 6.000000GB memory has been allocated and "
                "available memory is only 416.625000MB.",
                "asked 1.53 GiB", "micro-batch"},
           Case{"slurmstepd: error: *** JOB 4 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME "
                "LIMIT ***",
                "TIME LIMIT", "requeue"},
           Case{"The node was low on resource: memory. Container t was using 28Gi", "evicted",
                "memory"},
           Case{"ImportError: /l/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by "
                "/c/fused_adam.so)",
                "GLIBCXX_3.4.29", "libstdcxx-ng"},
           Case{"/t/C++17.h:13:2: error: #error \"You're trying to build PyTorch with a too old "
                "version of GCC. We need GCC 9 or later.\"\nninja: build stopped: subcommand "
                "failed.",
                "We need GCC 9 or later.", "gxx"},
           Case{"/s/adam.cpp:12:3: error: 'vec' was not declared in this scope\nninja: build "
                "stopped: subcommand failed.\nRuntimeError: Error building extension 'cpu_adam'",
                "'vec' was not declared", "torch_extensions"},
           Case{"slurmstepd: error: execve(): torchrun: No such file or directory",
                "no command torchrun", "module load"},
           Case{"job.sh: line 7: python3.8: command not found", "no command python3.8", "conda"},
           Case{"launch: torchrun: command not found on this node, in PATH /usr/bin:/bin",
                "no command torchrun", "conda"},
           Case{"slurmstepd: error: execve(): start.sh: Permission denied", "start.sh", "chmod +x"},
           Case{"huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for "
                "url: https://huggingface.co/d/x",
                "429", "HF_TOKEN"},
           Case{"wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login",
                "no API key", "WANDB_MODE"},
           Case{"FileNotFoundError: [Errno 2] No such file or directory: '/data/t.idx'",
                "/data/t.idx does not exist", "ls -l"},
           Case{"PermissionError: [Errno 13] Permission denied: '/out'", "read or write /out",
                "id"},
           Case{"ValueError: No file with name: a.pt found in /ckpt.", "/ckpt has no file a.pt",
                "ls"},
           Case{"OSError: [Errno 116] Stale file handle", "stale handle", "HF_DATASETS_CACHE"},
           Case{"OSError: [Errno 107] Transport endpoint is not connected: '/gcs/x'", "FUSE",
                "fusermount"},
           Case{"UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This "
                "indicates that the remote task has failed",
                "Task 37", "that task"},
           Case{"Memory access fault by GPU node-1 on address 0x10. Reason: Page not present.",
                "not its own", "AMD_SERIALIZE_KERNEL"},
           Case{"RuntimeError: HIP error: no kernel image is available for execution on the device",
                "no code", "PYTORCH_ROCM_ARCH"},
           Case{"RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION", "JAX",
                "jax[cuda12]"},
           Case{"MisconfigurationException: You requested gpu: [0, 1]\n But your machine only has: "
                "[0]",
                "[0, 1], and it sees [0]", "LOCAL_RANK"},
           Case{"RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.w: "
                "copying a param with shape torch.Size([9]) from checkpoint, the shape in current "
                "model is torch.Size([8]).",
                "another model than Net: size mismatch for fc.w", "strict=False"},
           Case{"wandb.errors.errors.CommError: Error uploading run: returned error 404", "404",
                "WANDB_MODE"},
           Case{"ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.", "SIGBUS",
                "/dev/shm"},
       }) {
    const Verdict verdict = Of(c.log);
    EXPECT_NE(verdict.cause.find(c.cause), std::string::npos) << c.log << "\n" << verdict.cause;
    EXPECT_NE(verdict.remedy.find(c.remedy), std::string::npos) << c.log << "\n" << verdict.remedy;
  }
}

TEST(Exceptions, OfAChainTheFirstIsNotCalledTheEnd) {
  const Verdict verdict =
      Of("Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n    x['lr']\n"
         "KeyError: 'lr'\n\nDuring handling of the above exception, another exception occurred:\n\n"
         "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\n"
         "RuntimeError: config has no lr\n");
  EXPECT_EQ(verdict.label, "python_exception");
  EXPECT_EQ(verdict.cause, "Its first exception was KeyError: 'lr'");
  EXPECT_NE(
      std::find(verdict.evidence.begin(), verdict.evidence.end(), "RuntimeError: config has no lr"),
      verdict.evidence.end());
}

TEST(Mutants, OtherPathsRanksAndTimesKeepTheLabel) {
  for (const Snippet& snippet : AllSnippets()) {
    std::string log(snippet.log);
    log = Replaced(log, "/home/", "/lustre/projects/");
    log = Replaced(log, "[rank1]", "[rank17]");
    log = Replaced(log, "2024", "2026");
    log = Replaced(log, "0000:", "00ab:");
    EXPECT_EQ(Of(log, snippet.exit_code).label, snippet.label) << log;
  }
}

TEST(Mutants, PrefixesOfLaunchersKeepTheLabel) {
  for (const std::string_view prefix :
       {"[rank3]: ", "[default0]:", "gpu01: ", "3: ", "[1,3]<stderr>:", "(TrainWorker pid=41) ",
        "2025-03-01T10:11:12.123Z ", "[rank0]:[rank0]: "}) {
    for (const Snippet& snippet : AllSnippets())
      EXPECT_EQ(Of(EachLine(snippet.log, prefix, "\n"), snippet.exit_code).label, snippet.label)
          << prefix << snippet.log;
  }
}

TEST(Mutants, CarriageReturnsColoursAndNoiseKeepTheLabel) {
  for (const Snippet& snippet : AllSnippets()) {
    EXPECT_EQ(Of(EachLine(snippet.log, "", "\r\n"), snippet.exit_code).label, snippet.label);
    EXPECT_EQ(Of(EachLine(snippet.log, "\x1b[31m", "\x1b[0m\n"), snippet.exit_code).label,
              snippet.label)
        << snippet.log;
    std::string noise;
    for (int i = 0; i < 300; ++i) noise += "step " + std::to_string(i) + " loss 2.0 lr 1e-4\n";
    // Steps behind it mean that the program went on, unless it is known to have failed.
    const std::string behind = snippet.exit_code ? noise : "";
    EXPECT_EQ(Of(noise + EachLine(snippet.log, "", "\n") + behind, snippet.exit_code).label,
              snippet.label)
        << snippet.log;
    EXPECT_EQ(
        Of(std::string("\xff\xfe\0 x\n", 7) + std::string(snippet.log), snippet.exit_code).label,
        snippet.label);
  }
}

TEST(Mutants, WrappedLinesKeepTheLabel) {
  for (const Snippet& snippet : AllSnippets())
    EXPECT_EQ(Of(Wrapped(snippet.log, 72), snippet.exit_code).label, snippet.label)
        << Wrapped(snippet.log, 72);
}

TEST(Mutants, CleaningUpBehindItKeepsTheLabel) {
  constexpr std::string_view kEcho =
      "\nWARNING:torch.distributed.elastic.multiprocessing.api:Sending process 71 closing signal "
      "SIGTERM\nBrokenPipeError: [Errno 32] Broken pipe\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n";
  for (const Snippet& snippet : AllSnippets())
    EXPECT_EQ(Of(std::string(snippet.log) + std::string(kEcho), snippet.exit_code).label,
              snippet.label)
        << snippet.log;
}

TEST(Causes, MemoryOfRankThreeBeatsTheTimeoutOfRankZero) {
  const Verdict verdict = Of(
      "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600001 milliseconds before "
      "timing out.\n"
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 3 has "
      "a total capacity of 39.38 GiB of which 512.00 MiB is free.\n");
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_EQ(verdict.rank, 3);
  EXPECT_EQ(verdict.action, "retry_with_change");
}

TEST(Causes, TheRootRankOfTorchrunsReportIsTheFirstFailingOne) {
  const Verdict verdict =
      Of("[rank1]: ValueError: late\n[rank5]: KeyError: 'first'\n"
         "Failures:\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 2)\n"
         "Root Cause (first observed failure):\n[0]:\n  rank      : 5 (local_rank: 1)\n"
         "  exitcode  : 1 (pid: 3)\n");
  EXPECT_EQ(verdict.label, "python_exception");
  EXPECT_EQ(verdict.rank, 5);
  EXPECT_NE(verdict.cause.find("KeyError"), std::string::npos);
}

TEST(Causes, AToolkitWarningBeforeOutOfMemoryIsNotTheCause) {
  EXPECT_EQ(Of("[WARNING] DeepSpeed Op Builder: Installed CUDA version 11.5 does not match the "
               "version torch was compiled with 12.4\nexits with return code = -9\n"
               "Building extension module cpu_adam...\n"
               "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
                .label,
            "cuda_oom");
}

TEST(Causes, TheSchedulersWordBeatsTheTracebackAfterIt) {
  const Verdict verdict =
      Of("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2024-05-01T03:00:00 DUE TO TIME LIMIT "
         "***\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: "
         "1\n",
         1);
  EXPECT_EQ(verdict.label, "preempted_signal");
  EXPECT_EQ(verdict.action, "resume");
}

// A program that ignores SIGTERM goes on for a while after its time is up.
TEST(Causes, StepsBehindASchedulersWordDoNotTakeItBack) {
  EXPECT_EQ(
      Of("slurmstepd: error: *** STEP 55.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME "
         "LIMIT ***\n[rank: 0] Received SIGTERM: 15\nBypassing SIGTERM: 15\n"
         "step 1 loss 1.0\nstep 2 loss 0.9\nstep 3 loss 0.8\n",
         std::nullopt)
          .label,
      "preempted_signal");
}

TEST(Causes, ALostGpuBeatsWhatThePythonSideSaid) {
  EXPECT_EQ(Of("RuntimeError: CUDA error: unspecified launch failure\n"
               "kernel: NVRM: Xid (PCI:0000:89:00): 79, pid=1, GPU has fallen off the bus.\n")
                .label,
            "xid_gpu_hardware");
}

TEST(Node, TheCgroupsCounterConfirmsAHostKill) {
  NodeEvidence node;
  node.signal = 9;
  node.oom_kills = 1;
  node.rank = 2;
  const Verdict verdict = Diagnose("step 1\n", node, Table());
  EXPECT_EQ(verdict.label, "host_oom_kill");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.rank, 2);
  EXPECT_NE(verdict.evidence[0].find("oom_kill 1"), std::string::npos);
}

TEST(Node, AFullNodeIsToldFromALimitThatWasReached) {
  NodeEvidence node;
  node.signal = 9;
  node.oom_kills = 1;
  node.host_limit = 100ULL << 30;
  node.host_peak = 100ULL << 30;
  EXPECT_NE(Diagnose("", node, Table()).cause.find("reached its memory limit"), std::string::npos);
  node.kernel_lines = {
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/launch-a/1.1,pid=7,uid=0",
      "Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB, anon-rss:1kB"};
  EXPECT_NE(Diagnose("", node, Table()).cause.find("reached its memory limit"), std::string::npos);
  node.kernel_lines = {
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task_memcg=/launch-a/1.1,pid=7,uid=0",
      "Out of memory: Killed process 7 (python) total-vm:1kB, anon-rss:1kB"};
  const Verdict full = Diagnose("", node, Table());
  EXPECT_EQ(full.label, "host_oom_kill");
  EXPECT_NE(full.cause.find("The node ran out of memory"), std::string::npos) << full.cause;
  node.kernel_lines.clear();
  node.host_peak = 20ULL << 30;
  EXPECT_NE(Diagnose("", node, Table()).cause.find("The node ran out of memory"),
            std::string::npos);
}

TEST(Node, TheCounterConfirmsAKilledLoaderWorker) {
  NodeEvidence node;
  node.exit_code = 1;
  node.oom_kills = 1;
  const Verdict verdict = Diagnose(
      "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.\n", node, Table());
  EXPECT_EQ(verdict.label, "dataloader_worker_killed");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
}

TEST(Node, ABareSigkillIsNotCalledOutOfMemory) {
  NodeEvidence node;
  node.signal = 9;
  const Verdict verdict = Diagnose("", node, Table());
  EXPECT_EQ(verdict.label, "sigkill_unknown");
  EXPECT_EQ(verdict.confidence, Confidence::kUnknown);
  EXPECT_NE(verdict.cause.find("not a CUDA error"), std::string::npos);
  for (const char* word : {"memory", "num_workers", "batch"})
    EXPECT_NE(verdict.remedy.find(word), std::string::npos) << word;
}

TEST(Causes, ATextThatBashCannotReadEndsTheSameWayAgain) {
  const Verdict verdict = Of("/bin/bash: -c: line 7: syntax error: unexpected end of file\n", 2);
  EXPECT_EQ(verdict.label, "launcher_args");
  EXPECT_EQ(verdict.action, "no_retry");
  EXPECT_NE(verdict.cause.find("syntax error: unexpected end of file"), std::string::npos);
}

TEST(Node, OurOwnKillsAreToldApart) {
  NodeEvidence node;
  node.signal = 9;
  node.our_kill = OurKill::kCancel;
  EXPECT_EQ(Diagnose("", node, Table()).label, "none");
  node.our_kill = OurKill::kTimeLimit;
  EXPECT_EQ(Diagnose("", node, Table()).label, "time_limit");
  EXPECT_EQ(Diagnose("", node, Table()).action, "resume");
}

// torch/distributed/elastic: the table of ends, the others with the signal that torchrun sent them.
constexpr std::string_view kOthersWereStopped = R"(
W0101 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 70 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
failr.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_00:00:00
  host      : node1
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 70)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 70
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:00
  host      : node1
  rank      : 1 (local_rank: 1)
  exitcode  : 33 (pid: 71)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
launch: first failing rank of torchrun: 1 (local rank 1): exit 33
)";

TEST(Verdict, TheEndsOfRanksThatALauncherStoppedAreNoCause) {
  const Verdict verdict = Of(kOthersWereStopped, 33);
  EXPECT_EQ(verdict.label, "unknown") << verdict.cause;
  EXPECT_EQ(verdict.rank, 1);
  const Verdict killed =
      Of(Replaced(Replaced(std::string(kOthersWereStopped), "exitcode  : 33", "exitcode  : -9"),
                  "exit 33", "signal 9 (SIGKILL)"),
         137);
  EXPECT_EQ(killed.label, "sigkill_unknown");
  EXPECT_EQ(killed.rank, 1);
}

TEST(Verdict, AScriptThatActivatesTheEnvironmentIsNamed) {
  const std::string script = "/opt/envs/train/etc/conda/activate.d/z.sh";
  const Verdict ended = Of(
      "gcc: not found\nlaunch: activation script " + script + " ended the start with exit code 3\n",
      3);
  EXPECT_EQ(ended.label, "activation_failed");
  EXPECT_EQ(ended.confidence, Confidence::kConfirmed);
  EXPECT_NE(ended.cause.find(script), std::string::npos) << ended.cause;
  EXPECT_NE(ended.cause.find("exit code 3"), std::string::npos) << ended.cause;
  ASSERT_GE(ended.evidence.size(), 2U);
  EXPECT_EQ(ended.evidence[1], "last output: gcc: not found");
  NodeEvidence node;
  node.signal = 9;
  const Verdict late = Diagnose(
      "launch: activation script " + script + " had not ended after 120 s\n", node, Table());
  EXPECT_EQ(late.label, "activation_failed");
  EXPECT_EQ(late.action, "no_retry");
}

TEST(Verdict, WhatLaunchItselfDoesNotStartIsNamedWithItsRemedy) {
  const std::pair<const char*, const char*> stops[] = {
      {"launch: the call inside run asks for 2 processes on each node, and the plan has 1: the "
       "number was not known before\n  hint: write procs_per_node: 2 (or gpus: 2) in the job\n",
       "procs_per_node"},
      {"launch: torchrun was called inside a command that runs once per rank: it would start "
       "processes for each of them\n  hint: write launcher: node in the job, so that run starts "
       "once per node\n",
       "launcher: node"},
      {"launch: CUDA_VISIBLE_DEVICES=7 inside run names GPU 7, which is none of gpu_ids: 0,1\n"
       "  hint: write numbers of gpu_ids there, or leave CUDA_VISIBLE_DEVICES out\n",
       "gpu_ids"},
      {"launch: deepspeed --bind_cores_to_rank inside run cannot be held to the plan; leave it "
       "out\n",
       "leave the flag out"},
      {"launch: the deepspeed call inside run names no script\n", "name the script"}};
  for (const auto& [log, remedy] : stops) {
    const Verdict verdict = Of(log, 2);
    EXPECT_EQ(verdict.label, "launcher_args") << log;
    EXPECT_EQ(verdict.action, "no_retry") << log;
    EXPECT_NE(verdict.remedy.find(remedy), std::string::npos) << log << verdict.remedy;
  }
}

TEST(Verdict, AMemoryLimitOfSlurmOutranksTheCancellationThatItMade) {
  const std::string cancelled =
      "slurmstepd: error: *** JOB 77 ON n4 CANCELLED AT 2019-11-02T04:11:09";
  for (const std::string_view limit :
       {"slurmstepd: error: Exceeded job memory limit\n",
        "slurmstepd: error: Exceeded step memory limit at some point.\n",
        "slurmstepd: error: Job 77 exceeded memory limit (52100 > 51200), being killed\n"}) {
    for (const bool before : {true, false}) {
      const std::string end = cancelled + " ***\n";
      const Verdict verdict = Of(before ? std::string(limit) + end : end + std::string(limit), 137);
      EXPECT_EQ(verdict.label, "host_oom_kill") << limit;
      EXPECT_EQ(verdict.action, "retry_with_change") << limit;
    }
    EXPECT_EQ(Of(std::string(limit) + cancelled + " DUE TO PREEMPTION ***\n", 143).label,
              "preempted_signal");
  }
  EXPECT_EQ(Of(cancelled + " ***\n", 143).label, "preempted_signal");
}

TEST(Node, KernelLinesAndXidsConfirm) {
  NodeEvidence node;
  node.exit_code = 134;
  node.kernel_lines = {"NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE"};
  EXPECT_EQ(Diagnose("watchdog timeout\n", node, Table()).label, "ecc");
  node.kernel_lines.clear();
  node.xids = {45, 119};
  const Verdict verdict = Diagnose("", node, Table());
  EXPECT_EQ(verdict.label, "xid_gsp");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
}

TEST(Node, TheKernelConfirmsTheLimitOfProcessesAndBrokenMemory) {
  NodeEvidence node;
  node.exit_code = 1;
  const std::string log = "RuntimeError: can't start new thread\n";
  EXPECT_EQ(Diagnose(log, node, Table()).confidence, Confidence::kLikely);
  node.kernel_lines = {"cgroup: fork rejected by pids controller in /launch-a/7.1/rank.0"};
  const Verdict limit = Diagnose(log, node, Table());
  EXPECT_EQ(limit.label, "too_many_open_files");
  EXPECT_EQ(limit.confidence, Confidence::kConfirmed);
  EXPECT_NE(limit.cause.find("pids.max"), std::string::npos);
  node.kernel_lines = {"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"};
  const Verdict broken = Diagnose("step 1\n", node, Table());
  EXPECT_EQ(broken.label, "ecc");
  EXPECT_EQ(broken.action, "retry_elsewhere");
  EXPECT_EQ(broken.confidence, Confidence::kConfirmed);
}

TEST(Node, ForeignMemoryFromNvmlTurnsAnOutOfMemory) {
  NodeEvidence node;
  node.exit_code = 1;
  node.gpu_total = 24ull << 30;
  node.gpu_foreign = 20ull << 30;
  const Verdict verdict = Diagnose("RuntimeError: CUDA error: out of memory\n", node, Table());
  EXPECT_EQ(verdict.label, "cuda_oom_foreign_process");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
}

}  // namespace
}  // namespace launch
