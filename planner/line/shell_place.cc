#include "planner/line/shell_place.h"

#include <optional>
#include <string_view>
#include <utility>

namespace launch {
namespace {

constexpr std::size_t kMostPushed = 64;

// The words of a change of directory, without what may stand in front of it.
std::vector<ShellWord> ChangeOf(const ShellCommand& command) {
  std::size_t first = 0;
  while (first < command.words.size()) {
    const std::string& word = command.words[first].raw;
    if (word != "then" && word != "do" && word != "else" && word != "{" && word != "builtin" &&
        word != "command") {
      break;
    }
    ++first;
  }
  return {command.words.begin() + static_cast<std::ptrdiff_t>(first), command.words.end()};
}

}  // namespace

std::string NormalPath(const std::string& path) {
  std::vector<std::string_view> parts;
  const bool whole = path.starts_with('/');
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    const bool up = part == ".." && !parts.empty() && parts.back() != "..";
    if (up) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && !(whole && part == "..")) {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  std::string normal = whole ? "/" : "";
  for (const std::string_view part : parts) {
    if (!normal.empty() && normal != "/") normal += '/';
    normal += part;
  }
  return normal.empty() ? "." : normal;
}

ShellPlace::ShellPlace(std::string workdir)
    : start_(workdir.empty() ? "." : NormalPath(workdir)), directory_(start_) {}

std::string ShellPlace::Whole(const std::string& path) const {
  if (path.starts_with('/')) return path;
  if (directory_.empty() || path.empty() || path[0] == '~') return {};
  return directory_ + "/" + path;
}

std::string ShellPlace::NameOf(const std::string& path) const {
  const std::string whole = Whole(path);
  if (whole.empty() || (!moved() && !path.starts_with('/'))) return whole.empty() ? whole : path;
  const std::string normal = NormalPath(whole);
  return normal.starts_with(start_ + "/") ? normal.substr(start_.size() + 1) : normal;
}

void ShellPlace::Enter(std::string directory, KnownVariables& known) {
  const auto set = [&known](const char* name, const std::string& value) {
    if (value.empty()) {
      known.erase(name);
    } else {
      known.insert_or_assign(name, value);
    }
  };
  set("OLDPWD", directory_);
  directory_ = std::move(directory);
  set("PWD", directory_);
}

void ShellPlace::Note(const ShellCommand& command, KnownVariables& known, bool certain) {
  const std::vector<ShellWord> words = ChangeOf(command);
  if (words.empty() || command.joiner == "|") return;
  const std::string& verb = words[0].raw;
  if (verb != "cd" && verb != "pushd" && verb != "popd") return;
  std::size_t at = 1;
  while (at < words.size() && words[at].value.size() > 1 && words[at].value[0] == '-') ++at;
  std::string to;
  if (verb == "popd") {
    if (!stack_.empty()) to = stack_.back();
    if (!stack_.empty()) stack_.pop_back();
  } else if (at < words.size() && words[at].value == "-") {
    const auto before = known.find("OLDPWD");
    if (before != known.end()) to = before->second;
  } else if (at < words.size()) {
    const auto value = FixedValue(words[at], known);
    if (value) to = Whole(*value);
  }
  if (!to.empty()) to = NormalPath(to);
  if (verb == "pushd" && stack_.size() < kMostPushed) stack_.push_back(directory_);
  Enter(certain || to == directory_ ? std::move(to) : std::string(), known);
}

const std::string* TextsAt::Find(const std::string& written) const {
  // Names that stand for a file of the launcher's own are no paths.
  std::string name = written.starts_with('~') ? written : place_.NameOf(written);
  if (name.empty()) return nullptr;
  for (const Texts* texts : {own_, files_}) {
    if (texts == nullptr) continue;
    const auto found = texts->find(name);
    if (found != texts->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace launch
