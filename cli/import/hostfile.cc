// The hosts of DeepSpeed's and MPI's launchers: "gpu01 slots=8", "gpu01:8", "10.0.0.1".
#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/import/import.h"
#include "common/hostlist.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

struct Host {
  std::string name;
  std::optional<int> slots;  // absent: the file does not say
  bool colon = false;        // "gpu01:8", which `launch up` reads as a port
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

std::optional<int> Slots(std::string_view text) {
  const auto slots = ParseInt(text);
  if (!slots || *slots < 1 || *slots > 1024) return std::nullopt;
  return static_cast<int>(*slots);
}

bool IsHostName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

// "HOST", "HOST:N", "HOST slots=N [max_slots=M]", each with USER@ in front or not.
std::optional<Host> HostOf(const std::vector<std::string>& words) {
  Host host{words[0].substr(words[0].find('@') + 1), std::nullopt};
  if (const auto colon = host.name.find(':'); colon != std::string::npos) {
    host.colon = true;
    host.slots = Slots(std::string_view(host.name).substr(colon + 1));
    host.name.resize(colon);
    if (!host.slots || words.size() > 1) return std::nullopt;
  }
  if (!IsHostName(host.name)) return std::nullopt;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("max_slots=") || words[i].starts_with("max-slots=")) continue;
    if (!words[i].starts_with("slots=") || host.slots) return std::nullopt;
    host.slots = Slots(std::string_view(words[i]).substr(6));
    if (!host.slots) return std::nullopt;
  }
  return host;
}

// A lone word might be anything: a host has a digit or a dot in it, or a number of slots.
bool LooksLikeHost(const std::vector<std::string>& words) {
  if (words.size() > 1) return words[1].starts_with("slots=");
  return HostOf(words) && words[0].find_first_of("0123456789.:") != std::string::npos;
}

}  // namespace

bool IsHostfile(std::string_view text) {
  bool any = false;
  for (const std::string_view line : Split(text, '\n')) {
    const std::vector<std::string> words = Words(line);
    if (!words.empty() && !LooksLikeHost(words)) return false;
    any = any || !words.empty();
  }
  return any;
}

Result<Imported> ImportHostfile(std::string_view text, const std::string& path) {
  std::vector<Host> hosts;
  bool of_mpi = false;  // `launch up` takes the names, and not the file
  int line = 0;
  for (const std::string_view one : Split(text, '\n')) {
    ++line;
    const std::vector<std::string> words = Words(one);
    if (words.empty()) continue;
    const std::optional<Host> host = HostOf(words);
    if (!host)
      return Fail(ErrorCode::kInvalidArgument, "is not HOST, HOST:N or HOST slots=N with N from 1",
                  "", Where{path, line, 0, {}});
    const auto same = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const Host& other) { return other.name == host->name; });
    if (same != hosts.end() && !host->slots && words.size() == 1) {
      same->slots = same->slots.value_or(1) + 1;  // as MPI counts a host that is named again
      of_mpi = true;
      continue;
    }
    if (same != hosts.end())
      return Fail(ErrorCode::kInvalidArgument, "names " + host->name + " twice", "keep one line",
                  Where{path, line, 0, {}});
    hosts.push_back(*host);
    of_mpi = of_mpi || host->colon;
  }
  JobFileDraft draft;
  std::vector<std::string> names;
  std::optional<int> slots = hosts.front().slots;
  for (const Host& host : hosts) {
    names.push_back(host.name);
    if (!host.slots || !slots) {
      slots.reset();
      continue;
    }
    if (host.slots != hosts.front().slots)
      draft.Note(host.name + " has " + std::to_string(*host.slots) + " slots and " +
                 hosts.front().name + " " + std::to_string(*hosts.front().slots) +
                 ": gpus is the smallest number");
    slots = std::min(*slots, *host.slots);
  }
  draft.Set("nodes", std::to_string(hosts.size()));
  if (slots) {
    draft.Set("gpus", std::to_string(*slots));
  } else {
    draft.Note("the file does not say how many slots each host has: write gpus, those of a node");
  }
  const std::string list = FoldHostlist(names);
  draft.Set("nodelist", list);
  draft.Note("the names must be those of `launch nodes`; launch up " +
             (of_mpi ? ShellQuote(list) : path) + " brings the hosts into a cluster");
  return std::move(draft).Finish("hostfile", path);
}

}  // namespace launch
