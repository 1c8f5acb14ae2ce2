#include "planner/line/imported_starts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "planner/line/shell_text.h"

namespace launch {
namespace {

constexpr std::size_t kMostImportedStarts = 8;  // texts may be hostile
constexpr std::size_t kMostImportLines = 512;

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

std::size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

// The lines of a text up to the one that holds `end`, the last one first.
std::vector<std::string_view> LinesBackFrom(std::string_view text, std::size_t end) {
  std::vector<std::string_view> lines;
  std::size_t last = std::min(text.find('\n', end), text.size());
  while (lines.size() < kMostImportLines) {
    const std::size_t before = last == 0 ? std::string_view::npos : text.rfind('\n', last - 1);
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    lines.push_back(text.substr(first, last - first));
    if (first == 0) break;
    last = before;
  }
  return lines;
}

}  // namespace

std::vector<ImportedStart> ImportedStartsOf(std::string_view text, std::string_view script) {
  std::vector<ImportedStart> starts;
  for (std::size_t at = 0, lines = 0; at < text.size() && lines < kMostImportLines; ++lines) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = Trim(text.substr(at, end - at));
    const std::size_t import = line.find(" import ");
    if (line.starts_with("from ") && import != std::string_view::npos) {
      const std::string_view module = Trim(line.substr(5, import - 5));
      std::string_view names = line.substr(import + 8);
      if (names.starts_with('(')) {
        const std::size_t open = text.find('(', at);
        const std::size_t close = std::min(text.find(')', open), text.size());
        names = text.substr(open + 1, close - open - 1);
        end = std::max(end, close);
      }
      names = names.substr(0, names.find('#'));
      while (!names.empty()) {
        const std::size_t comma = std::min(names.find(','), names.size());
        const std::string_view item = Trim(names.substr(0, comma));
        names.remove_prefix(std::min(comma + 1, names.size()));
        const std::size_t as = item.find(" as ");
        const std::string_view name = Trim(item.substr(0, as));
        const std::string_view here =
            as == std::string_view::npos ? name : Trim(item.substr(as + 4));
        if (!SpeaksOfStart(name) || !IsCalled(text, here)) continue;
        auto files = FilesOfImport(module, script);
        if (!files.empty() && starts.size() < kMostImportedStarts)
          starts.push_back({std::string(name), std::move(files)});
      }
    }
    at = end + 1;
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

bool AlwaysSubmits(std::string_view text) {
  const std::size_t executor = text.find("Executor(");
  if (executor == std::string_view::npos) return false;
  const std::size_t close = std::min(text.find(')', executor), text.size());
  const std::string_view call = text.substr(executor, close - executor);
  const bool chooses = call.find("cluster") != std::string_view::npos ||
                       text.find("LocalExecutor") != std::string_view::npos ||
                       text.find("DebugExecutor") != std::string_view::npos;
  if (chooses) return false;
  std::size_t indent = std::string_view::npos;
  for (const std::string_view line : LinesBackFrom(text, executor)) {
    const std::string_view words = Trim(line);
    if (words.empty() || words.starts_with('#')) continue;
    const bool first = indent == std::string_view::npos;
    if (words.find("return") != std::string_view::npos ||
        words.find("exit(") != std::string_view::npos)
      return false;
    if (!first && IndentOf(line) >= indent) continue;
    indent = IndentOf(line);
    if (words.starts_with("if __name__") || words.starts_with("def ")) return true;
    if (words.starts_with("if ") || words.starts_with("elif ") || words.starts_with("else"))
      return false;
  }
  return true;
}

}  // namespace launch
