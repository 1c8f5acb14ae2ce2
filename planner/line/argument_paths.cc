#include "planner/line/argument_paths.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::size_t kMostPaths = 32;

// Parts of the names of flags, as trainers write them.
constexpr std::array<std::string_view, 14> kWritten = {
    "out", "save", "log",  "checkpoint", "ckpt", "result", "cache",
    "tmp", "temp", "dest", "export",     "dump", "profil", "tensorboard"};
constexpr std::array<std::string_view, 13> kRead = {
    "data",  "dataset", "train",      "valid",  "test",  "input",  "corpus",
    "model", "token",   "pretrained", "config", "vocab", "weights"};

template <std::size_t N>
bool NamesOne(const std::string& flag, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return flag.find(part) != std::string::npos; });
}

void AddPath(const std::string& flag, std::string path, ArgumentPaths& paths) {
  if (path.size() < 2 || path[0] != '/' || path.starts_with("/dev/")) return;
  if (NamesOne(flag, kWritten)) return;
  std::vector<std::string>& to = NamesOne(flag, kRead) ? paths.inputs : paths.others;
  if (to.size() < kMostPaths && std::find(to.begin(), to.end(), path) == to.end()) {
    to.push_back(std::move(path));
  }
}

}  // namespace

ArgumentPaths PathsOf(const LaunchLine& line) {
  ArgumentPaths paths;
  std::string flag;  // the one in front, which may have this word as its value
  for (const ShellWord& word : line.arguments) {
    const std::string& text = word.value;
    if (!word.fixed || text.empty()) {
      flag.clear();
      continue;
    }
    const std::size_t equals = text.find('=');
    // "--data=/x", and Hydra's "data.path=/x".
    if (equals != std::string::npos && text[0] != '/') {
      AddPath(Lower(text.substr(0, equals)), text.substr(equals + 1), paths);
      flag.clear();
    } else if (text[0] == '-') {
      flag = Lower(text);
    } else {
      AddPath(flag, text, paths);  // a flag may have several values: it stays
    }
  }
  return paths;
}

}  // namespace launch
