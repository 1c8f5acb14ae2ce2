// What the user's program did on the device or in Python. Sources: cudaGetErrorString,
// aten/src/ATen/native/cuda (assertions of index kernels), CPython, DeepSpeed's loss_scaler.py,
// fairseq, Megatron-LM, Lightning, torch's elastic agent.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kProgram[] = {
    {.label = "device_side_assert",
     .weight = 72,
     .phrases = {"device-side assert", "cudaErrorAssert", "CUDA_ERROR_ASSERT", "], thread: ["},
     .pattern = R"(device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT|)"
                R"(block: \[\d+, ?\d+, ?\d+\], thread: \[\d+, ?\d+, ?\d+\] Assertion)",
     .veto = R"((?i)TORCH_USE_CUDA_DSA)"},
    {.label =
         "device_side_assert",  // Paddle's kernels: PADDLE_ENFORCE of paddle/phi/core/enforce.h
     .weight = 72,
     .phrases = {" Assertion `"},
     .pattern = R"(^Error: \S+\.cu:\d+ Assertion `)"},
    {.label = "cuda_illegal_access",
     .weight = 62,
     .phrases = {"illegal memory access", "IllegalAddress", "ILLEGAL_ADDRESS",
                 "unspecified launch failure", "misaligned address", "llegal instruction was"},
     .pattern =
         R"(illegal memory access was encountered|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|)"
         R"(unspecified launch failure|misaligned address|illegal instruction was encountered)"},
    {.label = "cuda_illegal_access",
     .weight = 60,
     .phrases = {"ErrorLaunchFailure", "ERROR_LAUNCH_FAILED", "an illegal memory access",
                 "Invalid __global__", "Warp Illegal", "Warp Out-of-range"},
     .pattern =
         R"(cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED|Invalid __global__ (?:read|write)|Warp (?:Illegal|Out-of-range))"},

    // ROCm: rocr-runtime's queue of faults; the process is aborted.
    {.label = "cuda_illegal_access",
     .weight = 60,
     .phrases = {"Memory access fault by GPU", "APERTURE_VIOLATION", "HSA_STATUS_ERROR_EXCEPTION"},
     .pattern =
         R"(Memory access fault by GPU node-\d+|HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION|HSA_STATUS_ERROR_EXCEPTION)",
     .remedy = "run once with AMD_SERIALIZE_KERNEL=3 HIP_LAUNCH_BLOCKING=1 to find the kernel; if "
               "it comes back on another GPU it is a bug of the program or of an extension"},

    {.label = "segfault",
     .weight = 46,
     .phrases = {"Segmentation fault", "SIGSEGV", "segfault at ", "segmentation fault", "ignal 11",
                 "ignal: 11"},
     .pattern =
         R"([Ss]egmentation fault|SIGSEGV|segfault at [0-9a-f]+ ip \S+ sp \S+ error \d+ in ([^\s\[]+)|segfault at |[Ss]ignal:? 11\b)",
     .veto =
         R"((?i)install.*handler|faulthandler|potential root causes|common causes include|SIGSEGV or (?:an)?other|unexpectedly due to SIGSEGV)"},

    {.label = "segfault",  // malloc_printerr of glibc's malloc.c, __fortify_fail
     .weight = 44,
     .phrases = {"double free or corruption", "corrupted size vs. prev_size", "malloc(): ",
                 "free(): ", "realloc(): ", "munmap_chunk(): ", "*** stack smashing detected",
                 "ttempt to free invalid pointer"},
     .pattern =
         R"(double free or corruption|corrupted size vs\. prev_size|)"
         R"((?:malloc|free|realloc|munmap_chunk)\(\): (?:invalid|corrupted|unsorted|unaligned|mismatching|memory corruption)|)"
         R"(\*\*\* stack smashing detected|[Aa]ttempt to free invalid pointer)",  // tcmalloc.cc
     .cause = "Native code wrote over memory that is not its own, and the allocator noticed it "
              "(SIGABRT)"},
    // libstdc++: a std::thread that is destroyed while it runs, or CPython that ends a thread of
    // PyTorch's gloo within C++ while it shuts down (pytorch#190489).
    {.label = "segfault",
     .weight = 40,
     .phrases = {"terminate called without an active exception"},
     .cause = "A native thread was still at work when its program ended (SIGABRT); at the end of a "
              "run over gloo this is a race of PyTorch at the exit of Python, after the work was "
              "done",
     .remedy = "call torch.distributed.destroy_process_group() at the end of the script; where it "
               "does, end with os._exit(0) after the last save, which leaves nothing to race"},
    {.label = "segfault",
     .weight = 44,
     .phrases = {"Illegal instruction"},
     .pattern = R"((?:^|: )Illegal instruction\b)",
     .cause = "A native library uses instructions that this node's CPU does not have (SIGILL)",
     .action = "no_retry",
     .remedy =
         "install a build of it for this CPU (pip install --no-binary, or an older baseline), "
         "or take nodes with a newer one: lscpu | grep Flags"},

    // fork and pthread_create of glibc, as bash, CPython, OpenBLAS and libgomp pass it on.
    {.label = "too_many_open_files",
     .weight = 56,
     .phrases = {"can't start new thread", "pthread_create failed", "RLIMIT_NPROC",
                 "fork: retry: ", "fork: Resource temp", "Thread creation failed",
                 "unable to create new native thread", "rejected by pids controller"},
     .pattern =
         R"(can't start new thread|pthread_create failed|RLIMIT_NPROC \d+|fork: (?:retry: )?Resource temp|)"
         R"(fork rejected by pids controller|Thread creation failed|unable to create new native thread)",
     .cause =
         "The limit of processes and threads is reached (ulimit -u, or pids.max of the control "
         "group)",
     .remedy = "ulimit -u; cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/pids.max   # raise "
               "it, or start fewer: OMP_NUM_THREADS=1, num_workers=2"},
    // A library of CUDA that fails without saying at what: no line of the program is to blame.
    {.label = "unknown",
     .tier = Tier::kProgram,
     .confidence = Confidence::kSymptom,
     .weight = 40,
     .phrases = {"_EXECUTION_FAILED", "_INTERNAL_ERROR", "_MAPPING_ERROR", "CUFFT_EXEC_FAILED",
                 "launch timed out and was", "CUDA error: unknown error"},
     .pattern =
         R"((?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CURAND|CUFFT)(?:_STATUS)?_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)|)"
         R"(CUFFT_EXEC_FAILED|the launch timed out and was terminated|CUDA error: unknown error)",
     .cause = "A kernel or a library of CUDA failed and does not say at what",
     .remedy = "run once with CUDA_LAUNCH_BLOCKING=1 TORCH_SHOW_CPP_STACKTRACES=1, and look for an "
               "Xid: dmesg -T | grep -i xid; an index out of range and a full GPU look like this "
               "too"},

    // deepspeed/runtime/fp16/loss_scaler.py, fairseq/optim, apex, timm, MAE, Megatron, Lightning.
    {.label = "nan_loss",
     .weight = 64,
     .phrases = {"loss scale already at minimum", "Minimum loss scale reached", "stopping training",
                 "ound NaN in local", "is nan or inf", "reducing to 1"},
     .pattern =
         R"(loss scale already at minimum|Minimum loss scale reached|(?i:loss is (?:nan|inf)[^\n]*stopping)|)"
         R"([Ff]ound NaN in (?:local )?(?:forward )?(?:grad|loss)|[Ll]oss (?:returned in `training_step` )?is nan or inf|)"
         R"([Ll]oss scale: 1(?:\.0*)?, reducing to 1(?:\.0*)?\b)"},
    {.label = "nan_loss",  // torch/csrc/autograd, anomaly mode; jax_debug_nans
     .weight = 60,
     .phrases = {"returned nan values in its", "in `training_step` is nan",
                 "in `training_step` is inf", "invalid value (nan) encountered in"}},
    {.label = "nan_loss",
     .weight = 60,
     .phrases = {"Loss is nan", "loss is nan", "Loss is NaN", "loss is NaN", "on-finite loss",
                 "Loss is inf", "loss is inf"},
     .pattern =
         R"((?:Error|ERROR|[Ee]xit|[Ss]top|[Aa]bort)[^\n]*(?:[Ll]oss is (?:nan|NaN|inf)|on-finite loss)|)"
         R"((?:[Ll]oss is (?:nan|NaN|inf)|on-finite loss)[^\n]*(?:exit|stop|abort|Error|raise|terminat))",
     .veto =
         R"((?i)\b(?:no reason to|not|never|without|instead of) (?:exit|stop|abort|terminat|rais))"},
    // TensorFlow's check_numerics_op.cc; how scripts word it.
    {.label = "nan_loss",
     .weight = 60,
     .phrases = {"Tensor had NaN", "Tensor had Inf", "became nan", "became NaN", "has become nan",
                 "went to nan", "diverged: loss"},
     .pattern =
         R"(Error: [^\n]*: Tensor had (?:NaN|Inf)|(?i:(?:loss|gradient)s? (?:became|has become|went to) nan[^\n]{0,20}(?:abort|stop|exit|terminat))|)"
         R"(Error: [^\n]{0,40}\bloss (?:became|has become) (?i:nan)|diverged: loss ?[:=] ?(?i:nan|inf)(?:$|[.,;!)]| at | in | after ))"},
    {.label = "nan_loss",
     .weight = 58,
     .phrases = {"divergence", "Gradients are NaN", "NaN loss", "nan loss", "NaN detected",
                 "nan detected"},
     .pattern =
         R"((?:Error|ERROR|[Ee]xiting|[Ss]topping|[Aa]bort)[^\n]*(?i:nan loss|nan detected|gradients are nan)|)"
         R"((?i:nan (?:loss )?detected[^\n]*(?:exit|stop|abort)))",
     .veto = R"(NaN detected in latents)"},  // kohya's train_util.py: of one image, before training
    // Whatever a program calls it: an exception about a loss or gradient that is no number
    // (detectron2, mmengine, fairseq, Keras, TensorFlow's estimators, Megatron's rerun machine).
    {.label = "nan_loss",
     .weight = 60,
     .phrases = {"infinite or N", "infinite or n", "NaN or I", "nan or i", "Nan/Inf", "NaN/Inf",
                 "Inf/NaN", "inf or nan", "Inf or NaN", "not finite", "NanLossDuringTraining",
                 "on-finite "},
     .pattern =
         R"(NanLossDuringTrainingError|^(?:\w+\.)*\w*(?:Error|Exception): (?i:[^\n]*(?:loss|grad|norm|diverg)[^\n]{0,60})"
         R"((?:infinite or n|nan or i|nan/inf|inf/nan|inf or nan|not finite|non-finite )|)"
         R"([^\n]*(?:infinite or n|nan or i|nan/inf|inf/nan|inf or nan|not finite|non-finite )[^\n]{0,60}(?:loss|grad|norm|diverg)))"},
    {.label = "nan_loss",
     .weight = 60,
     .phrases = {"NaN loss during training", "Invalid loss, terminating", "Inf/NaN. Training",
                 "diverged with loss = NaN", "found NaN in local", "on-finite loss, ending"},
     .pattern =
         R"(NaN loss during training|Invalid loss, terminating training|Inf/NaN\. Training has diverged|)"
         R"(diverged with loss = NaN|found NaN in local (?:forward loss|grad)|on-finite loss, ending)"},
    {.label = "nan_loss",
     .weight = 44,
     .phrases = {"loss: nan", "loss': nan", "loss\": nan", "loss=nan", "loss nan", "loss\": NaN"},
     .pattern = R"((?i)\bloss['"]?\s*[:=]?\s*nan\b)",
     .reading = Reading::kNan},
    {.label = "nan_loss",
     .weight = 44,
     .phrases = {"loss: NaN", "loss = nan", "Loss: nan", "Loss nan", "Loss=nan", "lm loss: nan"},
     .pattern = R"((?i)\bloss['"]?\s*[:=]?\s*nan\b)",
     .reading = Reading::kNan},

    {.label = "nan_loss",  // transformers/trainer.py with fp16: nothing is learnt any more
     .weight = 44,
     .phrases = {"'grad_norm': nan"},
     .pattern = R"('loss': 0\.0, 'grad_norm': nan)",
     .reading = Reading::kNan},
    {.label = "nan_loss",  // deepspeed's loss_scaler.py: the scale of fp16 can go no lower
     .weight = 44,
     .phrases = {"reducing to 1", "scale already at minimum"},
     .pattern =
         R"([Ll]oss scale: 1(?:\.0*)?, reducing to 1(?:\.0*)?(?:$|[^.\d])|scale already at minimum)",
     .reading = Reading::kNan},
    {.label =
         "nan_loss",  // apex/amp/scaler.py; Megatron's training log, which leaves a bad loss out
     .weight = 44,
     .phrases = {"reducing loss scale to", "number of nan iterations", "grad norm: nan"},
     .pattern =
         R"(reducing loss scale to (?:0\.0\b|\d\.?\d*e-\d\d)|number of nan iterations: +[1-9]|)"
         R"(iteration +\d+/ *\d+ \|[^\n]*\bgrad norm: nan)",
     .veto = R"(loss: +\d\.\d+E)",
     .reading = Reading::kNan},

    // What trainers print while they train: tqdm, transformers' dictionaries, Lightning, Megatron,
    // "step 12 loss 1.0".
    {.tier = Tier::kNote,
     .phrases = {"\u2588\u2588\u2588", "#######", "      |", "iteration ",
                 "'loss': ", "\"loss\": "},
     .pattern =
         "(?:\u2588\u2588\u2588|#######|      )"
         R"([^\n]*\| *\d+/\d+ \[\d+:\d\d(?::\d\d)?<[^\]]*(?:it/s|s/it)|['"]loss['"]: *[\d.]+|)"
         R"(iteration +\d+/ *\d+ \|[^\n]*loss: +[\d.]+E)",
     .reading = Reading::kStep},
    {.tier = Tier::kNote,
     .phrases = {" loss: ", ", loss=", " loss = ", " loss 0.", " loss 1.", " loss 2."},
     .pattern =
         R"((?i)\b(?:step|iter(?:ation)?|epoch)s?\b\W*\d+[^\n]*\bloss\b['"]?\s*[:=]?\s*[\d.]+)",
     .reading = Reading::kStep},

    // Composer's console_logger.py; reinforcement learning, which has a reward beside its loss.
    {.tier = Tier::kNote,
     .phrases = {"[batch=", "reward/", " reward", "'reward"},
     .pattern =
         R"(^\s*\[batch=\d+/\d+\]:|)"
         R"(['"]reward['"]: *-?\d[^\n]*['"](?:\w*step|epoch|iteration)['"]: *\d|)"
         R"(['"](?:\w*step|epoch|iteration)['"]: *\d[^\n]*['"]reward['"]: *-?\d|)"
         R"((?i)\b(?:step|iter(?:ation)?|epoch)\b\W*\d+[^\n]*\breward(?:/\w+)?\b['"]?(?: *[:=] *| +)-?\d)",
     .reading = Reading::kStep},

    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {"Traceback (most recent"},
     .reading = Reading::kTraceback},
    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {"Error: ", "Exception: ", "Failure: ", "Interrupt", "AssertionError",
                 "RuntimeError", "NotImplementedError", "StopIteration"},
     .pattern =
         R"(^(?:\[\w+\]:? ?)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Failure|Fault)): ?(.*)$|)"
         R"(^((?:[A-Za-z_]\w*\.)*(?:AssertionError|KeyboardInterrupt|NotImplementedError|StopIteration))$)",
     .reading = Reading::kException},
    {.label = "python_exception",  // torch/nn/modules/module.py
     .tier = Tier::kProgram,
     .weight = 41,
     .phrases = {" in loading state_dict for "},
     .pattern =
         R"(RuntimeError: Error\(s\) in loading state_dict for (\w+): *)"
         R"((size mismatch for [^\n]{1,180}? in current model is [^\n]{1,60}?\)|(?:Missing|Unexpected) key\(s\)[^\n]{1,120}))",
     .cause = "The checkpoint is of another model than \\1: \\2",
     .remedy = "load it into the configuration that wrote it (layers, sizes, vocabulary), or leave "
               "out what does not fit before load_state_dict: strict=False passes over names, not "
               "over sizes"},
    {.label = "python_exception",  // wandb/errors
     .tier = Tier::kProgram,
     .weight = 41,
     .phrases = {".CommError: "},
     .pattern = R"(^wandb\.(?:errors\.)*CommError: ([^\n]{1,160}))",
     .cause = "Weights & Biases did not take the run: \\1",
     .remedy = "look at project, entity and WANDB_BASE_URL; WANDB_MODE=offline in `env:` trains "
               "without it, and wandb sync sends the run later"},
    {.label = "python_exception",  // wandb/sdk/wandb_login.py
     .tier = Tier::kProgram,
     .weight = 42,
     .phrases = {"UsageError: api_key not"},
     .pattern = R"(UsageError: api_key not configured)",
     .cause = "Weights & Biases has no API key in the job",
     .remedy = "pass it by `secrets: [WANDB_API_KEY]`, or set WANDB_MODE=offline (or =disabled) in "
               "`env:`"},
    // hydra/_internal/instantiate/_instantiate2.py, with HYDRA_FULL_ERROR unset.
    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 39,
     .phrases = {"Error in call to target"},
     .pattern = R"(Error in call to target '([^'\n]*)': *(\w+\([^\n]{0,120}))",
     .cause = "Hydra could not make \\1: \\2",
     .remedy = "HYDRA_FULL_ERROR=1 shows the traceback; correct the configuration or the class"},
    {.label = "python_exception",  // libraries' own classes, not all of which are called errors
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {".errors.", ".exceptions.", ".exception."},
     .pattern = R"(^((?:[a-z_]\w*\.)+[A-Z]\w+): (.*)$)",
     .reading = Reading::kException},
    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 30,
     .phrases = {"SyntaxError", "IndentationError"},
     .pattern = R"(^((?:\w+\.)*(?:SyntaxError|IndentationError|TabError)): ?(.*)$)",
     .reading = Reading::kException},
};

}  // namespace

std::span<const Signature> ProgramSignatures() { return kProgram; }

}  // namespace launch
