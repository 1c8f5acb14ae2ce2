#include "cli/up/login_shell.h"

namespace launch::up {
namespace {

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
  return std::string("exec ") + (as_root ? "sudo -n -H " : "") +
         "/bin/sh -c 'eval \"$(printf %b \"$0\")\"' '" + Escaped(command) + "'";
}

}  // namespace launch::up
