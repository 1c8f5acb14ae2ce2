// What launchers and schedulers say at the end. Sources: torch/distributed/elastic
// (multiprocessing/api.py, errors/__init__.py, agent/server), torch/multiprocessing/spawn.py,
// deepspeed/launcher/launch.py, subprocess of CPython, Slurm's srun and slurmstepd, bash.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kLauncher[] = {
    // slurmd/slurmstepd/req.c: "*** JOB 1 ON n CANCELLED AT t DUE TO ... ***".
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 70,
     .phrases = {"DUE TO PREEMPTION", "DUE TO TIME LIMIT", "DUE TO JOB REQUEUE"},
     .pattern =
         R"((?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED AT \S+ DUE TO (PREEMPTION|TIME LIMIT|JOB REQUEUE))",
     .cause = "Slurm ended the job, not an error of its own: \\1"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 66,  // below the memory limit that it is cancelled for
     .phrases = {"CANCELLED AT"},
     .pattern = R"(JOB \S+ ON \S+ CANCELLED AT \S+ DUE to SIGNAL \w+|)"
                R"(JOB \S+ ON \S+ CANCELLED AT \S+ \*\*\*)"},
    // A step alone is also cancelled by srun itself when one of its tasks failed.
    {.label = "preempted_signal",
     .tier = Tier::kSymptom,
     .confidence = Confidence::kLikely,
     .weight = 45,
     .phrases = {"CANCELLED AT"},
     .pattern = R"(STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*)"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 70,
     .phrases = {"DUE TO NODE FAILURE", "Node failure on "},
     .pattern =
         R"((?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO NODE FAILURE|srun: error: Node failure on (\S+))",
     .cause = "Slurm gave the node up, and the job with it",
     .action = "retry_elsewhere"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 60,
     .phrases = {"job is preempted", "will be preempted", "has been preempted", "was preempted",
                 "reached time limit", "reached the time limit", "walltime", "TERM_RUNLIMIT",
                 "exceeded hard wallclock"},
     .pattern =
         R"((?i)job (?:is|was|has been|will be) preempted|has been preempted|instance[^\n]*was preempted|)"
         R"(reached (?:the )?time limit|job killed: walltime|exceeded (?:the )?walltime|TERM_RUNLIMIT|)"
         R"(job \S+ exceeded hard wallclock time)"},  // Grid Engine's execd
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 58,
     .phrases = {"TERM_OWNER", "TERM_PREEMPT", "reemption notice", "ACPI G2", "reemption signal",
                 "terminated: preempted"},
     .pattern =
         R"(TERM_(?:OWNER|PREEMPT)|(?i:(?:got|received|caught|detected)(?: an?| the)? preemption (?:notice|signal))|)"
         R"((?i:^\W*preemption (?:notice|signal):|preemption (?:notice|signal) (?:was )?(?:received|caught|detected))|)"
         R"(ACPI G2 Soft Off|terminated: preempted)",
     .veto =
         R"((?i)\b(?:no|not|if|when|until|handlers?|listen\w*|watch\w*|wait\w*|install\w*|register\w*)\b)"},
    // Notices of clouds: EC2's and Azure's instance metadata as their handlers print them.
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 58,
     .phrases = {"interruption notice", "Interruption Notice", "interruption warning",
                 "Spot Instance Interruption", "\"EventType\": \"Preempt",
                 "\"EventType\":\"Preempt"},
     .pattern =
         R"((?i:(?:spot|instance)[^\n]{0,40}interruption (?:notice|warning))|Spot Instance Interruption|)"
         R"("EventType": ?"Preempt)",
     .veto = R"((?i)\bno (?:spot|interruption)|monitor|watch(?:ing|er)|polling|listen)"},
    {.label = "preempted_signal",
     .tier = Tier::kAuthority,
     .weight = 56,
     .phrases = {"reason: Preempted", "Preempted in order to admit", "DisruptionTarget",
                 "Preempted by pod ", "Preempted by a pod on node",  // kube-scheduler's event
                 "compute.instances.preempted"},                     // Google's audit log
     .pattern =
         R"(reason: Preempted|Preempted in order to admit|DisruptionTarget|Preempted by (?:pod |a pod on node)|)"
         R"((?i:method_?name|operation_?type)['"]?\s*[:=]\s*['"]?(?:v1\.|beta\.)?compute\.instances\.preempted)",
     .veto = R"(DisruptionTarget['"]?\s*[:=]?\s*['"]?[Ff]alse)"},
    // The terminal was closed: torchrun passes SIGHUP on.
    {.label = "preempted_signal",
     .tier = Tier::kRoot,
     .weight = 42,
     .phrases = {"signal SIGHUP", "got signal: 1", " death signal"},
     .pattern =
         R"(closing signal SIGHUP|got signal: 1\b|Received (?:Signals\.SIGHUP|1) death signal)",
     .cause = "The process got SIGHUP: its terminal was closed"},
    // SIGTERM is often the launcher's own cleaning up, so whatever else is told is the cause.
    {.label = "preempted_signal",
     .tier = Tier::kSymptom,
     .weight = 42,
     .phrases = {"got signal: 15", "got signal: 2", " death signal"},
     // Python before 3.11 prints the name, later ones the number.
     .pattern =
         R"(got signal: (?:15|2)\b|Received (?:Signals\.SIG(?:TERM|INT)|15|2) death signal)"},
    {.label = "preempted_signal",
     .tier = Tier::kSymptom,
     .weight = 41,
     .phrases = {"SIGUSR1", "SIGUSR2", "SIGTERM"},
     .pattern =
         R"((?i)(?:received|caught|got)[^\n]{0,24}(?:SIGTERM|SIGUSR[12])|(?:SIGTERM|SIGUSR[12]) received)",
     .veto = R"(closing signal|Bypassing)"},

    // planner/start/allocation.cc, of the scripts that activate a conda environment.
    {.label = "activation_failed",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 90,
     .phrases = {"launch: activation script "},
     .pattern =
         R"(launch: activation script (\S.*?) (ended the start with exit code \d+|had not ended after \d+ s))",
     .cause = "The script \\1, which activates the conda environment, \\2"},

    // planner/start/node_launcher.py, of a call that it does not hold to the plan.
    {.label = "launcher_args",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 90,
     .phrases = {"launch: the call inside run asks for "},
     .pattern =
         R"(launch: the call inside run asks for (\d+) processes on each node, and the plan has (\d+))",
     .cause = "The call inside run asks for \\1 processes on each node, and the plan has \\2",
     .remedy = "write procs_per_node (or gpus) with the number of the call in the job"},
    {.label = "launcher_args",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 90,
     .phrases = {" was called inside a command that runs once per rank"},
     .pattern = R"(launch: (\S+) was called inside a command that runs once per rank)",
     .cause = "\\1 was called inside a command that runs once per rank: each would start more",
     .remedy = "write launcher: node in the job, so that run starts once per node"},
    {.label = "launcher_args",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 90,
     .phrases = {" inside run names GPU "},
     .pattern =
         R"(launch: (CUDA_VISIBLE_DEVICES=\S+) inside run names GPU (\S+), which is none of gpu_ids)",
     .cause = "\\1 inside run names GPU \\2, which is none of the job's gpu_ids",
     .remedy = "write numbers of gpu_ids there, or leave CUDA_VISIBLE_DEVICES out"},
    {.label = "launcher_args",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 90,
     .phrases = {" inside run cannot be held to the plan",
                 "launch: the deepspeed call inside run names no script"},
     .pattern = R"(launch: (deepspeed \S+ inside run cannot be held to the plan|)"
                R"(the deepspeed call inside run names no script))",
     .cause = "launch did not start it: \\1",
     .remedy = "leave the flag out, and name the script behind the flags of deepspeed"},

    // How a rank ended, in every launcher's words.
    {.tier = Tier::kWrapper,
     .phrases = {"(exitcode: ", "exitcode  :", "exitcode : ", "(local_rank: ", "Root Cause (first",
                 "(SIGKILL)"},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {"return code = ", "died with <Signals", "terminated with signal",
                 "terminated with exit code", "returned non-zero exit", "Exited with exit code"},
     // A helper that failed is no rank.
     .veto = R"((?i)^\W*warn(?:ing)?\b[^\n]*returned non-zero exit|Command '\['git')",
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {": Killed", ": Segmentation fault", ": Aborted", ": Terminated", ": Bus error",
                 " Killed  "},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {"ChildFailedError", "received by PID", "Killed by signal", "exited on signal",
                 "exited. Killed", "exit code 137", "crashed with exit code", "(core dumped)",
                 ") exited with code ", "AlgorithmError: "},
     .reading = Reading::kRankEnd},
    // Ray's raylet (node_manager.cc): it saw the connection end, and lists what may be behind it.
    {.label = "unknown",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 40,
     .phrases = {"Worker unexpectedly exits with a connection error",
                 "worker process has died unexpectedly"},
     .pattern = R"(Worker unexpectedly exits with a connection error code \d+|)"
                R"(because its worker process has died unexpectedly)",
     .cause =
         "A worker of Ray ended without a word: killed (most often for host memory) or crashed",
     .remedy =
         "dmesg -T | grep -iE 'oom|killed process|segfault' on the node of that worker; "
         "ls /tmp/ray/session_latest/logs/worker-*   # the file with its pid has its last words"},
    // PyCharm's, on a line of its own.
    {.tier = Tier::kWrapper,
     .phrases = {"Process finished with exit"},
     .pattern = R"(^ *Process finished with exit)",
     .reading = Reading::kRankEnd},

    {.tier = Tier::kWrapper,
     .phrases = {"launch: first failing rank of "},
     .reading = Reading::kRankEnd},
    // Open MPI's, PRRTE's and MPICH's reports, Horovod's, torch.multiprocessing's, Lightning's
    // (strategies/launchers/subprocess_script.py), Ray Train's.
    {.tier = Tier::kWrapper,
     .phrases = {"noticed that process rank", "exited due to process rank", "  Process name: ",
                 "MPI_ABORT was invoked on rank", "application called MPI_Abort",
                 "terminated with the following", "Child process with PID"},
     .reading = Reading::kRankEnd},
    {.tier = Tier::kWrapper,
     .phrases = {" RUNNING AT ", "KILLED BY SIGNAL: ", "EXIT CODE: ", "  Exit code:  ",
                 "TERMINATED WITH THE EXIT STRING"},
     .reading = Reading::kRankEnd},

    // The run began again behind what was told so far: torch's elastic agent, trainers that resume.
    {.tier = Tier::kNote,
     .phrases = {"will restart worker group", "esuming from ", "esuming training", "esumed from ",
                 "esume from checkpoint", "ontinuing training from checkpoint",
                 "all states from the checkpoint", "states from the checkpoint path",
                 "successfully loaded checkpoint", "loaded checkpoint '"},
     .pattern =
         R"(will restart worker group|[Rr]esum(?:ing|ed) (?:training )?(?:run )?(?:from|at) |[Rr]esuming training\b|)"
         R"([Rr]esume from checkpoint|[Cc]ontinuing training from checkpoint|)"
         R"(Restor(?:ed|ing) (?:all )?states from the checkpoint|successfully loaded checkpoint|=> loaded checkpoint ')",
     .veto = R"((?i)\b(?:not|cannot|unable|failed to)\b)",
     .reading = Reading::kRestart},
    // And came to its end: Lightning, transformers' Trainer, most scripts.
    {.tier = Tier::kNote,
     .phrases = {"raining complete", "raining finished", "raining done", "raining is complete",
                 "raining is done", "raining has finished", "inished training", "train_runtime",
                 "Trainer.fit` stopped: `max_", "TRAINING COMPLETE", "Done training",
                 "raining has completed"},
     .pattern =
         R"((?:^|[:\]>*!=-] *)(?:[Tt]raining|TRAINING) (?:is |has )?(?:[Dd]one|[Cc]ompleted?|COMPLETED?|[Ff]inished)(?:\W*$|\. Do not forget|!| in | after )|)"
         R"((?:^|[:\]>*!=-] *)(?:[Ff]inished|Done) training(?:\W*$|!| in | after )|['"]train_runtime['"]: |`Trainer\.fit` stopped: `max_)",
     .reading = Reading::kDone},

    // NCCL's own summary of an error told elsewhere.
    {.label = "unknown",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 40,
     .phrases = {"unhandled system error", "unhandled cuda error",
                 "please report this issue to the NCCL", "ncclSystemError", "ncclInternalError",
                 "ncclUnhandledCudaError"},
     .cause = "NCCL reports an error that another library made; the line before it is missing"},
    // CUDACHECK of NCCL's src/include/checks.h: a text of the runtime that no other row reads.
    {.label = "unknown",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 41,
     .phrases = {"NCCL WARN Cuda failure "},
     .pattern = R"(NCCL WARN Cuda failure (?:\d+ )?'([^'\n]+)')",
     .cause = "CUDA refused a call of NCCL: \\1"},
};

}  // namespace

std::span<const Signature> LauncherSignatures() { return kLauncher; }

}  // namespace launch
