// What launchers and schedulers say at the end. Sources: torch/distributed/elastic
// (multiprocessing/api.py, errors/__init__.py, agent/server), torch/multiprocessing/spawn.py,
// deepspeed/launcher/launch.py, subprocess of CPython, Slurm's srun and slurmstepd, bash.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kRows[] = {
    // slurmd/slurmstepd/req.c: "*** JOB 1 ON n CANCELLED AT t DUE TO ... ***".
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 70,
     .phrases = {"DUE TO PREEMPTION", "DUE TO TIME LIMIT", "DUE TO JOB REQUEUE", "DUE TO NODE",
                 "CANCELLED AT", "due to preemption"},
     .pattern =
         R"(DUE TO (PREEMPTION|TIME LIMIT|JOB REQUEUE|NODE FAILURE)|due to (preemption)|CANCELLED AT \S+ \*\*\*)"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 60,
     .phrases = {"job is preempted", "has been preempted", "was preempted", "reached time limit",
                 "walltime", "TERM_RUNLIMIT"},
     .pattern =
         R"((?i)job (?:is|was|has been|will be) preempted|has been preempted|instance[^\n]*was preempted|)"
         R"(reached (?:the )?time limit|job killed: walltime|exceeded (?:the )?walltime|TERM_RUNLIMIT)"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 58,
     .phrases = {"TERM_OWNER", "TERM_PREEMPT", "preemption notice", "ACPI G2", "reemption signal",
                 "terminated: preempted"},
     .pattern =
         R"(TERM_(?:OWNER|PREEMPT)|(?i:preemption (?:notice|signal))|ACPI G2 Soft Off|terminated: preempted)"},
    // The terminal was closed: torchrun passes SIGHUP on.
    {.label = "preempted_signal",
     .tier = Tier::kRoot,
     .weight = 42,
     .phrases = {"signal SIGHUP", "got signal: 1", "Received 1 death signal", "got signal: 15",
                 "signal 15 ", "got signal: 2"},
     .pattern =
         R"(closing signal (SIGHUP)|got signal: (1|2|15)\b|Received (1|2|15) death signal|[Rr]eceived signal (15|1)\b)",
     .veto = R"(closing signal SIGTERM)"},
    {.label = "preempted_signal",
     .tier = Tier::kRoot,
     .weight = 42,
     .phrases = {"SIGUSR1", "SIGUSR2", "received SIGTERM", "Received SIGTERM", "SIGTERM received",
                 "got SIGTERM"},
     .pattern =
         R"((?i)(?:received|caught|got|bypassing)[^\n]{0,24}(SIGTERM|SIGUSR[12])|(SIGTERM|SIGUSR[12]) received)",
     .veto = R"(closing signal)"},

    // How a rank ended, in every launcher's words.
    {.tier = Tier::kWrapper,
     .phrases = {"(exitcode: ", "exitcode  :", "exitcode : ", "(local_rank: ", "Root Cause (first",
                 "(SIGKILL)"},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {"return code = ", "died with <Signals", "terminated with signal",
                 "terminated with exit code", "returned non-zero exit", "Exited with exit code"},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {": Killed", ": Segmentation fault", ": Aborted", ": Terminated", ": Bus error",
                 " Killed  "},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {"ChildFailedError", "received by PID", "Killed by signal", "exited on signal",
                 "exited. Killed", "exit code 137"},
     .reading = Reading::kRankEnd},

    // NCCL's own summary of an error told elsewhere.
    {.label = "unknown",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 40,
     .phrases = {"unhandled system error", "unhandled cuda error",
                 "please report this issue to the NCCL", "ncclSystemError", "ncclInternalError",
                 "ncclUnhandledCudaError"},
     .cause = "NCCL reports an error that another library made; the line before it is missing"},
};

}  // namespace

std::span<const Signature> LauncherSignatures() { return kRows; }

}  // namespace launch
