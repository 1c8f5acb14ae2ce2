#include "planner/line/imported_starts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "planner/line/shell_text.h"

namespace launch {
namespace {

// Texts may be hostile.
constexpr std::size_t kMostImportedStarts = 8;
constexpr std::size_t kMostNamesAsked = 64;
constexpr std::size_t kMostImportLines = 512;
constexpr std::size_t kLongestImport = 128;

bool SpeaksOfStart(std::string_view name) {
  constexpr std::array<std::string_view, 3> kWords = {"launch", "spawn", "submit"};
  const std::string lower = Lower(name);
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

// "pkg.misc" as "pkg/misc.py" and "pkg/misc/__init__.py", beside the script and where run stands.
std::vector<std::string> FilesOfImport(std::string_view module, std::string_view script) {
  const bool relative = module.starts_with('.');
  if (relative) module.remove_prefix(1);
  if (module.empty() || module.starts_with('.')) return {};
  std::string path(module);
  std::ranges::replace(path, '.', '/');
  const std::size_t slash = script.rfind('/');
  const std::string beside(script.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
  std::vector<std::string> files;
  for (const std::string& name : {path + ".py", path + "/__init__.py"}) {
    files.push_back(beside + name);
    if (!relative && !beside.empty()) files.push_back(name);
  }
  return files;
}

bool IsCalled(std::string_view text, std::string_view name) {
  const std::string call = std::string(name) + "(";
  for (std::size_t at = text.find(call); at != std::string_view::npos;
       at = text.find(call, at + 1)) {
    if (at == 0 || (!IsNameChar(text[at - 1]) && text[at - 1] != '.')) return true;
  }
  return false;
}

// "a, b as c" of "from m import a, b as c", also in brackets over several lines. `end`: behind
// them.
struct ImportLine {
  std::string_view module;
  std::string_view names;
  std::size_t end = 0;
};

// The line of the text that begins at `at`; without a module: it is none of "from m import ...".
ImportLine ImportAt(std::string_view text, std::size_t at) {
  ImportLine found{{}, {}, std::min(text.find('\n', at), text.size())};
  const std::string_view line = Trim(text.substr(at, found.end - at));
  const std::size_t import = line.find(" import ");
  if (!line.starts_with("from ") || import == std::string_view::npos) return found;
  const std::string_view module = Trim(line.substr(5, std::max<std::size_t>(import, 5) - 5));
  // A name of Python's: nothing that leads out of the directory.
  const bool name = std::ranges::all_of(module, [](char c) { return IsNameChar(c) || c == '.'; });
  if (!name) return found;
  found.module = module;
  found.names = Trim(line.substr(import + 8));
  if (!found.names.starts_with('(')) return found;
  const std::size_t open = text.find('(', at);
  const std::size_t close = std::min(text.find(')', open), text.size());
  found.names = text.substr(open + 1, close - open - 1);
  found.end = std::max(found.end, close);
  return found;
}

}  // namespace

std::vector<ImportedStart> ImportedStartsOf(std::string_view text, std::string_view script) {
  std::vector<ImportedStart> starts;
  std::size_t asked = 0;
  for (std::size_t at = 0, lines = 0; at < text.size() && lines < kMostImportLines; ++lines) {
    const ImportLine import = ImportAt(text, at);
    at = import.end + 1;
    std::string_view names = import.names;
    while (!import.module.empty() && !names.empty()) {
      const std::size_t end = std::min(names.find_first_of(",\n"), names.size());
      const std::string_view item = Trim(names.substr(0, std::min(names.find('#'), end)));
      names.remove_prefix(std::min(end + 1, names.size()));
      const std::size_t as = item.find(" as ");
      const std::string_view name = Trim(item.substr(0, as));
      const std::string_view here = as == std::string_view::npos ? name : Trim(item.substr(as + 4));
      if (item.size() > kLongestImport || !SpeaksOfStart(name)) continue;
      if (++asked > kMostNamesAsked || starts.size() == kMostImportedStarts) return starts;
      auto files = FilesOfImport(import.module, script);
      if (!files.empty() && IsCalled(text, here))
        starts.push_back({std::string(name), std::string(here), std::move(files)});
    }
  }
  return starts;
}

std::string_view FunctionIn(std::string_view text, std::string_view name) {
  const std::string head = "def " + std::string(name) + "(";
  std::size_t at = text.starts_with(head) ? 0 : text.find("\n" + head);
  if (at == std::string_view::npos) return {};
  if (at > 0) ++at;
  std::size_t end = text.size();
  for (const std::string_view next : {"\ndef ", "\nclass ", "\n@", "\nif __name__"})
    end = std::min(end, text.find(next, at));
  return text.substr(at, end - at);
}

}  // namespace launch
