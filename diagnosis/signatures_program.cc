// What the user's program did on the device or in Python. Sources: cudaGetErrorString,
// aten/src/ATen/native/cuda (assertions of index kernels), CPython, DeepSpeed's loss_scaler.py,
// fairseq, Megatron-LM, Lightning, torch's elastic agent.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kProgram[] = {
    {.label = "device_side_assert",
     .weight = 72,
     .phrases = {"device-side assert", "cudaErrorAssert", "CUDA_ERROR_ASSERT", "],0,0], thread",
                 ",0], thread: [", "` failed."},
     .pattern = R"(device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT|)"
                R"(block: \[\d+, ?\d+, ?\d+\], thread: \[\d+, ?\d+, ?\d+\] Assertion)",
     .veto = R"((?i)TORCH_USE_CUDA_DSA)"},
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

    {.label = "segfault",
     .weight = 46,
     .phrases = {"Segmentation fault", "SIGSEGV", "segfault at ", "segmentation fault",
                 "signal 11"},
     .pattern =
         R"([Ss]egmentation fault|SIGSEGV|segfault at [0-9a-f]+ ip \S+ sp \S+ error \d+ in ([^\s\[]+)|segfault at|[Ss]ignal:? 11\b)",
     .veto = R"((?i)install.*handler|faulthandler)"},

    {.label = "segfault",  // malloc_printerr of glibc's malloc.c, __fortify_fail
     .weight = 44,
     .phrases = {"double free or corruption", "corrupted size vs. prev_size", "malloc(): ",
                 "free(): invalid ", "munmap_chunk(): invalid", "*** stack smashing detected"},
     .pattern =
         R"(double free or corruption|corrupted size vs\. prev_size|)"
         R"((?:malloc|free|realloc|munmap_chunk)\(\): (?:invalid|corrupted|unsorted|unaligned|mismatching|memory corruption)|)"
         R"(\*\*\* stack smashing detected)",
     .cause = "Native code wrote over memory that is not its own, and glibc noticed it (SIGABRT)"},

    // deepspeed/runtime/fp16/loss_scaler.py, fairseq/optim, apex, timm, MAE, Megatron, Lightning.
    {.label = "nan_loss",
     .weight = 64,
     .phrases = {"loss scale already at minimum", "Minimum loss scale reached", "stopping training",
                 "ound NaN in local", "is nan or inf", "reducing to 1"},
     .pattern =
         R"(loss scale already at minimum|Minimum loss scale reached|(?i:loss is (?:nan|inf)[^\n]*stopping)|)"
         R"([Ff]ound NaN in (?:local )?(?:forward )?(?:grad|loss)|[Ll]oss (?:returned in `training_step` )?is nan or inf|)"
         R"([Ll]oss scale: 1(?:\.0*)?, reducing to 1(?:\.0*)?\b)"},
    {.label = "nan_loss",  // torch/csrc/autograd, anomaly mode
     .weight = 60,
     .phrases = {"returned nan values in its", "in `training_step` is nan",
                 "in `training_step` is inf"}},
    {.label = "nan_loss",
     .weight = 60,
     .phrases = {"Loss is nan", "loss is nan", "Loss is NaN", "loss is NaN", "on-finite loss",
                 "Loss is inf"},
     .pattern =
         R"((?:Error|ERROR|[Ee]xit|[Ss]top|[Aa]bort)[^\n]*(?:[Ll]oss is (?:nan|NaN|inf)|on-finite loss)|)"
         R"((?:[Ll]oss is (?:nan|NaN|inf)|on-finite loss)[^\n]*(?:exit|stop|abort|Error|raise|terminat))"},
    {.label = "nan_loss",
     .weight = 58,
     .phrases = {"divergence", "Gradients are NaN", "NaN loss", "nan loss", "NaN detected",
                 "nan detected"},
     .pattern =
         R"((?:Error|ERROR|[Ee]xiting|[Ss]topping|[Aa]bort)[^\n]*(?i:nan loss|nan detected|gradients are nan)|)"
         R"((?i:nan (?:loss )?detected[^\n]*(?:exit|stop|abort)))"},
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
    {.label = "nan_loss",  // apex/amp/scaler.py; Megatron's training log
     .weight = 44,
     .phrases = {"reducing loss scale to", "number of nan iterations"},
     .pattern =
         R"(reducing loss scale to (?:0\.0\b|\d\.?\d*e-\d\d)|number of nan iterations: +[1-9])",
     .reading = Reading::kNan},

    // What trainers print while they train: tqdm, transformers' dictionaries, Lightning, Megatron,
    // "step 12 loss 1.0".
    {.tier = Tier::kNote,
     .phrases = {"\u2588\u2588\u2588", "#######", "      |", "iteration ",
                 "'loss': ", "\"loss\": "},
     .pattern = R"(\d+/\d+ \[\d+:\d\d(?::\d\d)?<[^\]]*(?:it/s|s/it)|['"]loss['"]: *[\d.]+|)"
                R"(iteration +\d+/ *\d+ \|[^\n]*loss: +[\d.]+E)",
     .reading = Reading::kStep},
    {.tier = Tier::kNote,
     .phrases = {" loss: ", ", loss=", " loss = ", " loss 0.", " loss 1.", " loss 2."},
     .pattern =
         R"((?i)\b(?:step|iter(?:ation)?|epoch)s?\b\W*\d+[^\n]*\bloss\b['"]?\s*[:=]?\s*[\d.]+)",
     .reading = Reading::kStep},

    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {"Traceback (most recent"},
     .reading = Reading::kTraceback},
    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {"Error: ", "Exception: ", "Interrupt", "AssertionError", "RuntimeError"},
     .pattern =
         R"(^(?:\[\w+\]:? ?)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Failure|Fault)): ?(.*)$|)"
         R"(^((?:[A-Za-z_]\w*\.)*(?:AssertionError|KeyboardInterrupt|NotImplementedError|StopIteration))$)",
     .reading = Reading::kException},
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
