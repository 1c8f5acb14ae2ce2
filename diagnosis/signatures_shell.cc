// What bash says of a text that it cannot read.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kShell[] = {
    // bash/parse.y and error.c, of `run` itself: "/bin/bash: -c: line 7: syntax error: ...".
    {.label = "launcher_args",
     .weight = 58,
     .phrases = {"bash: -c: line "},
     .pattern =
         R"(bash: -c: line (\d+: syntax error[^\n]*|\d+: unexpected EOF while looking for matching [^\n]*))",
     .cause = "bash cannot read the command of the job: line \\1",
     .remedy =
         "correct that line of the command: a quote, a bracket or a block (if, for, while, {) "
         "is not closed, or closed twice"},
};

}  // namespace

std::span<const Signature> ShellSignatures() { return kShell; }

}  // namespace launch
