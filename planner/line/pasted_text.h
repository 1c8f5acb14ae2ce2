// What a command keeps of the page, the notebook or the editor that it was copied from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "planner/line/shell_text.h"

namespace launch {

// An editor's mark at the start of a file is no part of its first word.
std::string_view WithoutByteOrderMark(std::string_view text);

// Checks for text pasted from elsewhere. kInvalidArgument where bash would look for a program that
// nobody has: a terminal's prompt, the
// `!` or `%%bash` of a notebook, a blank that is none, a line of flags; and where a page says what
// to write: `<path>`, which bash takes for two redirections.
Result<void> CheckPasted(std::string_view text, const ShellScript& script);

// The same for a text that bash may not even be able to read.
Result<void> CheckPasted(std::string_view text);

// Whether the word is a placeholder of a page ("{num_gpus}", "[N]", "..."), which is never a value.
bool IsPlaceholder(std::string_view value);
Unexpected PlaceholderLeft(std::string_view shown);

// "–nproc" begins with a dash that no program reads as one.
bool BeginsWithOtherDash(const ShellWord& word);

// Dashes and quotes of a word processor among the words.
std::optional<Finding> PastedCharacters(const ShellScript& script);

// A shell script with the line ends of Windows: bash takes the last of them for a part of a word.
std::optional<Finding> CarriageReturns(const std::string& shown, std::string_view text);

}  // namespace launch
