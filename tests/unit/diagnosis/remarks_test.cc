// Lines that speak of a failure and tell of none: what may come, what is watched for, what the
// program does without. Whatever ends the run behind them is named, and they never are.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "diagnosis/verdict.h"
#include "tests/unit/diagnosis/of_log.h"
#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr std::string_view kRemarks[] = {
    "Preemption notice handler installed",
    "preemption notice handler installed",
    "Preemption notices are watched on http://metadata.google.internal",
    "No Preemption notice so far",
    "epoch 2: no Preemption notice, going on",
    "Waiting for a Preemption notice in the background",
    "watching the audit log for compute.instances.preempted",
    "pods: DisruptionTarget=False",
};

constexpr std::string_view kTimeout =
    "[rank0]:[E1017 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran "
    "for 600010 milliseconds before timing out.\n";
constexpr std::string_view kTraceback =
    "Traceback (most recent call last):\n  File \"/w/t.py\", line 9, in <module>\n    run()\n";

std::string Log(std::string_view a, std::string_view b) {
  return std::string(a) + "\n" + std::string(b);
}

TEST(Remarks, TellOfNoFailure) {
  for (const std::string_view remark : kRemarks) {
    EXPECT_EQ(Of(remark, std::nullopt).label, "none") << remark;
    EXPECT_EQ(Of(remark, 0).label, "none") << remark;
  }
}

TEST(Remarks, DoNotNameTheEndBehindThem) {
  for (const std::string_view remark : kRemarks) {
    const std::string begun = Log(remark, "phase one took 3 s\nphase two took 4 s\n");
    EXPECT_EQ(Of(begun, 137).label, "sigkill_unknown") << remark;
    EXPECT_EQ(Of(begun + std::string(kTimeout), 134).label, "nccl_timeout") << remark;
    EXPECT_EQ(Of(begun + std::string(kTraceback) + "KeyError: 'lr'\n").label, "python_exception")
        << remark;
    EXPECT_EQ(Of(begun + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
                         "GPU 0 has a total capacity of 79.1 GiB of which 1.0 GiB is free.\n")
                  .label,
              "cuda_oom")
        << remark;
  }
}

constexpr Snippet kEnds[] = {
    {"preempted_signal", "Preemption notice: this VM ends in 30 s", 143},
    {"preempted_signal", "got a preemption notice from the metadata server", 143},
    {"preempted_signal", "Received preemption signal, saving a checkpoint", 143},
    {"preempted_signal", "Preemption notice received", 143},
    {"preempted_signal", "protoPayload.methodName: compute.instances.preempted", std::nullopt},
    {"preempted_signal", "\"methodName\": \"v1.compute.instances.preempted\"", std::nullopt},
};

TEST(Remarks, WhatEndsTheRunIsNamed) {
  for (const Snippet& snippet : kEnds)
    EXPECT_EQ(Of(snippet.log, snippet.exit_code).label, snippet.label) << snippet.log;
}

// The server answers again, too late for who waited for it.
TEST(Outage, ThatEndedTheRunIsNotForgotten) {
  const std::string lost = "step 1 loss 2\n[812.1] nfs: server fs01 not responding, still trying\n";
  const std::string back = "[1499.0] nfs: server fs01 OK\n";
  EXPECT_EQ(Of(lost + std::string(kTimeout) + back, 134).label, "storage_io");
  EXPECT_EQ(Of(lost + std::string(kTraceback) +
               "RuntimeError: DataLoader timed out after 120 seconds\n" + back)
                .label,
            "storage_io");
  EXPECT_EQ(
      Of("[9.1] nfs: server st1 not responding, timed out\n[99.1] nfs: server st1 OK\n").label,
      "storage_io");
  EXPECT_EQ(Of(lost + back + "phase two\n" + std::string(kTimeout), 134).label, "nccl_timeout");
  EXPECT_EQ(Of(lost + back + std::string(kTraceback) + "KeyError: 'lr'\n").label,
            "python_exception");
  EXPECT_EQ(Of(lost + back, std::nullopt).label, "none");
}

TEST(Outage, OfTheKernelsLinesIsBehindItsTimeouts) {
  NodeEvidence node;
  node.exit_code = 134;
  node.kernel_lines = {"nfs: server fs01 not responding, still trying", "nfs: server fs01 OK"};
  EXPECT_EQ(Diagnose(kTimeout, node, Table()).label, "storage_io");
  node.exit_code = 1;
  EXPECT_EQ(Diagnose(Log(kTraceback, "KeyError: 'lr'\n"), node, Table()).label, "python_exception");
  node.exit_code = 0;
  EXPECT_EQ(Diagnose("done\n", node, Table()).label, "none");
}

}  // namespace
}  // namespace launch
