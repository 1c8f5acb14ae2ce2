// Lines that say of themselves that the program went on, or that are no message of it at all.
#pragma once

#include <string_view>

namespace launch {

// Whether the text says that the program goes on ("..., skipping", "falling back to ..."): then
// whatever the line, or the traceback right beside it, reports ended nothing.
bool SaysItGoesOn(std::string_view text);

// Whether the text announces what the program does next ("starting from scratch", "using the cached
// ..."), which may be what fails.
bool AnnouncesNext(std::string_view text);

// Whether the text is a class's name ("KeyError", "my.pkg.Failed"): a dotted name whose last part
// has a capital and a small letter.
bool IsClassName(std::string_view name);

// Whether the text is the last line of an uncaught exception: "KeyError: 'x'",
// "torch._dynamo.exc.Unsupported: ...".
bool IsOfException(std::string_view text);

// How much the line says that its program lives on: 0 for what programs, their wrappers and
// launchers print while they end, 2 for progress.
int LifeIn(std::string_view text);

// A dump of arguments, a command as the shell echoes it, the help of an option, a record of data:
// nothing of it happened.
bool IsNoMessage(std::string_view text);

// A shell's word on a command of its script.
bool IsOfShell(std::string_view text);

// The line goes on, or tells of `label` in passing only.
bool IsInPassing(std::string_view text, std::string_view label);

// The line calls itself a warning, a hint or a note: "WARNING:root: ...", "[rank0]: W0501 ...".
bool IsWarning(std::string_view text);

// A program that warns of `label` goes on: of its environment, its files, its memory. Of a driver
// that is too old, of libraries of two versions and of a GPU that torch has no code for, the
// warning is all that is said of the cause.
bool IsMeantByWarning(std::string_view label);

}  // namespace launch
