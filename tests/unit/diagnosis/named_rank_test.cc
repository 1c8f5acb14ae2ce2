// The rank that a launcher's report names, in each launcher's words; and none where it names none.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "diagnosis/rank_end.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

struct Report {
  const char* log;
  const char* label;
  std::optional<Rank> rank;
  int exit_code = 1;
};

TEST(NamedRank, IsReadFromEachLaunchersReport) {
  const Report kReports[] = {
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=4405.0. Some of the step tasks have "
       "been OOM Killed.\nsrun: error: nid001277: task 3: Out Of Memory\n",
       "host_oom_kill", 3, 137},
      {"slurmstepd: error: Detected 3 oom_kill events in StepId=4405.0.\nsrun: error: nid001: "
       "tasks "
       "1-3: Out Of Memory\n",
       "host_oom_kill", 1, 137},
      {"srun: error: gpu7: task 5: Segmentation fault (core dumped)\n", "segfault", 5, 139},
      {"mpirun noticed that process rank 1 with PID 48122 on node gpu7 exited on signal 9 "
       "(Killed).\n",
       "sigkill_unknown", 1, 137},
      {"prterun noticed that process rank 2 with PID 48122 on node gpu7 exited on signal 11 "
       "(Segmentation fault).\n",
       "segfault", 2, 139},
      {"the job to be terminated. The first process to do so was:\n\n  Process name: "
       "[[29973,1],6]\n  Exit code:    1\n",
       "unknown", 6},
      {"terminated. The first process to do so was:\n\n   Process name: [prterun-gpu1-71@1,2]\n   "
       "Exit code:    1\n",
       "unknown", 2},
      {"MPI_ABORT was invoked on rank 4 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
       "unknown", 4},
      {"application called MPI_Abort(MPI_COMM_WORLD, 1) - process 2\n", "unknown", 2},
      {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 771 RUNNING AT "
       "gpu1\n=   KILLED BY SIGNAL: 9 (Killed)\n",
       "sigkill_unknown", 3, 9},
      {"-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n  "
       "File \"/w/t.py\", line 4, in f\n    g()\nValueError: bad shape\n",
       "python_exception", 3},
      {"[rank: 1] Child process with PID 77 terminated with code -9. Forcefully terminating all "
       "other processes to avoid zombies\n",
       "sigkill_unknown", 1},
      {"  rank      : 2 (local_rank: 2)\n  exitcode  : -11 (pid: 6421)\n  error_file: <N/A>\n  "
       "traceback : Signal 11 (SIGSEGV) received by PID 6421\n",
       "segfault", 2},
      {"AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3\n",
       "nan_loss", 3},
      {"Exception in device=TPU:4: RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom "
       "of "
       "memory. That was not possible. There are 6.78G free, 0B reserved, and 3.33G reservable.\n",
       "cuda_oom", 4},
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered\n[E "
       "ProcessGroupNCCL.cpp:916] "
       "[Rank 1] NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC "
       "error encountered\n",
       "ecc", 1},
      {"Indexing.cu:1284: indexSelectLargeIndex: block: [37,0,0], thread: [92,0,0] Assertion "
       "`srcIndex < srcSelectDimSize` failed.\n[rank2]: Traceback (most recent call last):\n"
       "[rank2]:   File \"/w/t.py\", line 154, in <module>\n[rank2]: RuntimeError: CUDA error: "
       "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle)`\n",
       "device_side_assert", 2},
      // deepspeed/launcher/launch.py and torch/distributed/launch.py show the command that they
      // started last, not the one that failed.
      {"[launch.py:434:sigkill_handler] ['/usr/bin/python3', '-u', 'main.py', '--local_rank=0', "
       "'--deepspeed'] exits with return code = -9\n",
       "sigkill_unknown", 0, 247},
      {"[launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'main.py', '--local_rank=7', "
       "'--deepspeed'] exits with return code = -9\n",
       "sigkill_unknown", std::nullopt, 247},
      {"subprocess.CalledProcessError: Command '['python3', '-u', 'a.py', '--local_rank=7']' died "
       "with <Signals.SIGSEGV: 11>.\n",
       "segfault", std::nullopt},
      // Two ranks, and nothing says who was first.
      {"RuntimeError: CUDA error: device-side assert triggered\n[rank0]: ValueError: a\n[rank1]: "
       "ValueError: b\n",
       "device_side_assert", std::nullopt},
  };
  for (const Report& report : kReports) {
    const Verdict verdict = Of(report.log, report.exit_code);
    EXPECT_EQ(verdict.label, report.label) << report.log;
    EXPECT_EQ(verdict.rank, report.rank) << report.log;
  }
}

TEST(NamedRank, IsNotSrunsTaskWhereTheTaskIsALauncher) {
  const Verdict verdict = Of(
      "Root Cause (first observed failure):\n[0]:\n  rank      : 6 (local_rank: 6)\n  exitcode  : "
      "-9 (pid: 71)\nsrun: error: gpu1: task 0: Out Of Memory\n",
      137);
  EXPECT_EQ(verdict.label, "host_oom_kill");
  EXPECT_EQ(verdict.rank, 6);
}

TEST(ExitCode, OfAWindowsCrashIsItsSignal) {
  EXPECT_EQ(DecodeExitCode(3221225477).signal, 11);
  EXPECT_EQ(DecodeExitCode(-1073741819).signal, 11);
  EXPECT_EQ(DecodeExitCode(3221226505).signal, 6);
  EXPECT_EQ(DecodeExitCode(7).exit_code, 7);
}

}  // namespace
}  // namespace launch
