#include "cli/up/login_shell.h"

#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

// Put together over there: a shell that prints the line it was given prints no mark.
constexpr std::string_view kPrintBegin = "printf @%s@ launch-answer";
constexpr std::string_view kBegin = "@launch-answer@";
constexpr std::string_view kPrintEnd = "printf @%s:%d@ launch-answer $r";
constexpr std::string_view kEnd = "@launch-answer:";
constexpr int kNeverRan = 126;

// As an argument of printf's %b, between single quotes: csh ends a word at a line break and reads
// '!' as history, fish reads a backslash before another or a quote. Three octal digits after \0 are
// the same for all.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c != '\'' && c != '\\' && c != '!' && byte >= ' ' && byte < 127) {
      escaped += c;
      continue;
    }
    escaped += "\\0";
    for (const int shift : {6, 3, 0}) escaped += static_cast<char>('0' + ((byte >> shift) & 7));
  }
  return escaped;
}

}  // namespace

std::string ForAnyLoginShell(std::string_view command, bool as_root) {
  std::string line = std::string("exec ") + (as_root ? "sudo -n -H " : "") + "/bin/sh -c '";
  line.append(kPrintBegin).append("; ").append(kPrintBegin).append(" >&2; ");
  line.append("(eval \"$(printf %b \"$0\")\"); r=$?; ").append(kPrintEnd);
  return line + "; exit $r' '" + Escaped(command) + "'";
}

RemoteAnswer AnswerWithin(RemoteAnswer all) {
  if (const std::size_t begin = all.errors.find(kBegin); begin != std::string::npos)
    all.errors.erase(0, begin + kBegin.size());
  const std::size_t begin = all.output.find(kBegin);
  if (begin == std::string::npos) {
    const std::string_view said = Trim(all.output);
    if (all.code == 0) {
      all.code = kNeverRan;
      all.errors += "its login shell did not run the command";
      if (!said.empty()) all.errors += ", and printed: ";
    }
    all.errors += said;
    all.output.clear();
    return all;
  }
  all.output.erase(0, begin + kBegin.size());
  const std::size_t end = all.output.rfind(kEnd);
  if (end == std::string::npos) return all;  // ended by a signal, or too long
  const std::size_t number = end + kEnd.size();
  const std::string code = all.output.substr(number, all.output.find('@', number) - number);
  all.code = static_cast<int>(ParseInt(code).value_or(all.code));
  all.output.erase(end);
  return all;
}

}  // namespace launch::up
