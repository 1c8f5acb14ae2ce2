// "gpu01 slots=8": the hosts of DeepSpeed's and MPI's launchers.
#include <algorithm>

#include "cli/import/import.h"
#include "common/hostlist.h"
#include "common/units.h"

namespace launch {
namespace {

struct Host {
  std::string name;
  int slots = 0;
};

std::vector<std::string> Words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(line.substr(0, line.find('#'))) + " ") {
    if (c != ' ' && c != '\t' && c != '\r') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

std::optional<Host> HostOf(const std::vector<std::string>& words) {
  if (words.size() != 2 || !words[1].starts_with("slots=")) return std::nullopt;
  const auto slots = ParseInt(std::string_view(words[1]).substr(6));
  if (!slots || *slots < 1 || *slots > 1024) return std::nullopt;
  return Host{words[0].substr(words[0].find('@') + 1), static_cast<int>(*slots)};
}

}  // namespace

bool IsHostfile(std::string_view text) {
  bool any = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> words = Words(text.substr(0, end));
    if (!words.empty() && (words.size() < 2 || words[1].find("slots=") != 0)) return false;
    any = any || !words.empty();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return any;
}

Result<Imported> ImportHostfile(std::string_view text, const std::string& path) {
  std::vector<Host> hosts;
  int line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> words = Words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const std::optional<Host> host = HostOf(words);
    if (!host)
      return Fail(ErrorCode::kInvalidArgument, "is not HOST slots=N with N from 1", "",
                  Where{path, line, 0, {}});
    const bool twice = std::any_of(hosts.begin(), hosts.end(),
                                   [&](const Host& other) { return other.name == host->name; });
    if (twice)
      return Fail(ErrorCode::kInvalidArgument, "names " + host->name + " twice", "keep one line",
                  Where{path, line, 0, {}});
    hosts.push_back(*host);
  }
  JobFileDraft draft;
  std::vector<std::string> names;
  int slots = hosts.front().slots;
  for (const Host& host : hosts) {
    names.push_back(host.name);
    if (host.slots != slots)
      draft.Note(host.name + " has " + std::to_string(host.slots) + " slots and " +
                 hosts.front().name + " " + std::to_string(hosts.front().slots) +
                 ": gpus is the smallest number");
    slots = std::min(slots, host.slots);
  }
  draft.Set("nodes", std::to_string(hosts.size()));
  draft.Set("gpus", std::to_string(slots));
  draft.Set("nodelist", FoldHostlist(names));
  draft.Note("the names must be those of `launch nodes`; launch up " + path +
             " brings the hosts into a cluster");
  return std::move(draft).Finish("hostfile", path);
}

}  // namespace launch
