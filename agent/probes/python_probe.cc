#include "agent/probes/python_probe.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "agent/account/acting_as.h"
#include "agent/probes/child_process.h"
#include "common/account.h"
#include "common/json_number.h"
#include "common/no_answer.h"
#include "common/utf8_head.h"

namespace launch {
extern const std::string_view kPythonProbe;  // python_probe.py
}  // namespace launch

namespace launch::agent {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = "@launch-python-probe ";
constexpr Millis kGoodFor{24 * 60 * 60 * 1000};
constexpr Millis kBadFor{10 * 60 * 1000};
constexpr Millis kUnansweredFor{2 * 60 * 1000};  // a file system may answer again

// Of what an interpreter may say; real ones stay far below.
constexpr std::size_t kMostSaid = 4096;
constexpr std::size_t kMostNamed = 256;
constexpr std::int64_t kMostDevices = 1024;

std::string Cut(const std::string& text) { return std::string(Utf8Head(text, kMostSaid)); }

std::string TextOf(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? Cut(found->get<std::string>()) : std::string{};
}

std::vector<std::string> TextsOf(const json& from, const char* key) {
  std::vector<std::string> texts;
  for (const json& text : from.value(key, json::array())) {
    if (texts.size() >= kMostNamed) break;
    if (text.is_string()) texts.push_back(Cut(text.get<std::string>()));
  }
  return texts;
}

std::optional<std::string> MaybeTextOf(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_string()) return std::nullopt;
  return Cut(found->get<std::string>());
}

TorchFacts TorchOf(const json& from) {
  TorchFacts torch{.version = TextOf(from, "version"),
                   .cuda = MaybeTextOf(from, "cuda"),
                   .hip = MaybeTextOf(from, "hip"),
                   .arch_list = TextsOf(from, "arch_list"),
                   .nccl = MaybeTextOf(from, "nccl"),
                   .path = TextOf(from, "path")};
  return torch;
}

void TakeStage(const json& stage, PythonAnswer& answer) {
  if (TextOf(stage, "stage") == "start") return;
  RuntimeFacts& facts = answer.facts;
  if (const std::string says = TextOf(stage, "says"); !says.empty()) facts.says = says;
  if (stage.contains("torch") && stage["torch"].is_object()) facts.torch = TorchOf(stage["torch"]);
  if (TextOf(stage, "stage") == "a") {
    facts.python = TextOf(stage, "python");
    const json packages = stage.value("packages", json::object());
    for (const auto& [name, version] : packages.items())
      if (version.is_string() && facts.packages.size() < kMostNamed)
        facts.packages[Cut(name)] = Cut(version.get<std::string>());
    facts.built_ops = TextsOf(stage, "built_ops");
    answer.places = TextsOf(stage, "stamps");
    answer.complete = !facts.torch;  // without torch there is no second stage
    return;
  }
  const auto flag = [&](const char* key) {
    const auto found = stage.find(key);
    return found != stage.end() && found->is_boolean() ? std::optional<bool>(found->get<bool>())
                                                       : std::nullopt;
  };
  facts.sees_gpu = flag("sees_gpu");
  if (const auto devices = WholeNumberIn(stage, "devices", 0, kMostDevices))
    facts.devices = static_cast<int>(*devices);
  facts.mps = flag("mps");
  answer.complete = true;
}

// Last lines, where interpreters put the reason.
std::string LastLines(std::string_view text, std::size_t lines) {
  std::string kept;
  while (!text.empty() && lines > 0) {
    const auto end = text.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) break;
    const auto start = text.rfind('\n', end);
    const std::string_view line =
        text.substr(start == std::string_view::npos ? 0 : start + 1,
                    end - (start == std::string_view::npos ? 0 : start + 1) + 1);
    if (!line.starts_with(kMark)) {
      kept.insert(0, kept.empty() ? "" : "\n").insert(0, line.substr(0, 300));
      --lines;
    }
    text = start == std::string_view::npos ? std::string_view{} : text.substr(0, start);
  }
  return kept;
}

std::string OwnUser() { return NameOfUser(::geteuid()).value_or(std::to_string(::geteuid())); }

// Who the interpreter runs as; absent = as this process.
Result<std::optional<LocalAccount>> AccountOf(const PythonQuestion& question) {
  if (question.user.empty() || question.user == OwnUser()) return std::optional<LocalAccount>();
  LAUNCH_ASSIGN_OR_RETURN(LocalAccount account, FindAccount(question.user));
  return std::optional(std::move(account));
}

std::string EndedBySignal(int number) {
  const char* const name = ::sigdescr_np(number);
  return "ended by signal " + std::to_string(number) +
         (name == nullptr ? "" : " (" + std::string(name) + ")");
}

// What the node or its disks lack, or somebody who writes to the file just now: no fault of it.
bool IsOfTheNode(int error_number) {
  constexpr std::array kCodes = {E2BIG,     EAGAIN,    EHOSTDOWN, EINTR,   EIO,
                                 EMFILE,    ENFILE,    ENOLINK,   ENOMEM,  ENOTCONN,
                                 EREMOTEIO, ESHUTDOWN, ESTALE,    ETXTBSY, ETIMEDOUT};
  return std::ranges::find(kCodes, error_number) != kCodes.end();
}

}  // namespace

PythonAnswer ReadPythonAnswer(std::string_view output) {
  PythonAnswer answer;
  for (std::size_t at = output.find(kMark); at != std::string_view::npos;
       at = output.find(kMark, at + 1)) {
    if (at > 0 && output[at - 1] != '\n') continue;  // quoted by somebody else
    const auto end = output.find('\n', at);
    const json stage =
        json::parse(output.substr(at + kMark.size(), end - at - kMark.size()), nullptr, false);
    if (stage.is_object()) TakeStage(stage, answer);
  }
  return answer;
}

PythonProbe::PythonProbe(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

PythonProbe::Stamp PythonProbe::StampOf(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {path, 0, 0};
  return {path, found.st_ino, found.st_mtim.tv_sec * 1'000'000'000LL + found.st_mtim.tv_nsec};
}

std::optional<PythonProbe::Known> PythonProbe::Find(const PythonQuestion& question) const {
  std::optional<Known> found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(question); at != known_.end()) found = at->second;
  }
  if (!found) return std::nullopt;
  const auto account = AccountOf(question);
  if (!account) return std::nullopt;
  const ActingAs acting(*account);
  for (const Stamp& stamp : found->stamps)
    if (StampOf(stamp.path) != stamp) return std::nullopt;
  return found;
}

bool PythonProbe::Knows(const PythonQuestion& question) const {
  const std::optional<Known> known = Find(question);
  return known && clock_.Now() < known->until;
}

RuntimeFacts PythonProbe::Read(const PythonQuestion& question, const std::atomic<bool>* cancel) {
  const std::optional<Known> known = Find(question);
  if (known && (!known->facts.python.empty() || clock_.Now() < known->until)) return known->facts;
  return Run(question, Depth::kRead, cancel);
}

RuntimeFacts PythonProbe::Ask(const PythonQuestion& question, const std::atomic<bool>* cancel) {
  if (std::optional<Known> known = Find(question); known && clock_.Now() < known->until)
    return known->facts;
  return Run(question, Depth::kImport, cancel);
}

RuntimeFacts PythonProbe::Run(const PythonQuestion& question, Depth depth,
                              const std::atomic<bool>* cancel) {
  const bool import_torch = depth == Depth::kImport;
  const Millis deadline = import_torch ? options_.deadline : options_.read_deadline;
  const Patience patience(deadline, std::string(kMark), options_.answer_deadline);
  bool silent = false;
  PythonAnswer answer;
  const auto account = AccountOf(question);
  const std::optional<LocalAccount> as = account ? *account : std::nullopt;
  const ActingAs acting(as);  // its home may be closed to root
  std::vector<Stamp> stamps = {StampOf(question.path)};
  std::error_code error;
  const std::string realpath = std::filesystem::canonical(question.path, error).string();
  std::string trouble;
  if (error) {
    silent = IsOfTheNode(error.value());
    trouble = (silent ? std::string(kNotAsked) : "") + question.path + ": " + error.message();
  } else {
    stamps.push_back(StampOf(realpath));
    const std::vector<std::string> argv = {question.path, "-c", std::string(kPythonProbe),
                                           import_torch ? "import" : "read"};
    std::map<std::string, std::string> env = options_.env;
    if (as) {
      env["HOME"] = as->home;
      env["USER"] = as->name;
    }
    using Ran = tl::expected<Captured, SpawnError>;
    const Ran ran = account ? RunProgram(argv, env, patience, cancel, as, options_.scope)
                            : Ran(tl::unexpect, account.error());
    if (!ran) {
      silent =
          ran.error().step == SpawnError::Step::kPrepare || IsOfTheNode(ran.error().error_number);
      trouble = (silent ? std::string(kNotAsked) : "") + ran.error().message;
    } else {
      answer = ReadPythonAnswer(ran->output);
      if (!ran->status) {
        silent = true;
        const bool spoke = ran->output.find(kMark) != std::string::npos;
        const Millis waited = spoke ? deadline : std::min(deadline, options_.answer_deadline);
        trouble = std::string(kNoAnswer) + std::to_string(waited.count() / 1000) + " s";
        if (const std::string last = LastLines(ran->output, 1); !spoke && !last.empty())
          trouble += "; it prints: " + last;
      } else if (WIFSIGNALED(*ran->status)) {
        trouble = EndedBySignal(WTERMSIG(*ran->status));
      } else if (*ran->status != 0 || answer.facts.python.empty()) {
        trouble = LastLines(ran->output, 3);
        if (trouble.empty()) trouble = "it is not a Python interpreter";
      }
    }
  }
  RuntimeFacts& facts = answer.facts;
  facts.path = question.path;
  facts.realpath = error ? question.path : realpath;
  facts.user = question.user.empty() ? OwnUser() : question.user;
  facts.probed = clock_.WallNow();
  const bool good = trouble.empty() && answer.complete;
  const bool given_up = cancel != nullptr && *cancel;
  if (!trouble.empty()) facts.says = trouble + (facts.says.empty() ? "" : "\n" + facts.says);
  if (!given_up &&
      (import_torch || !facts.torch)) {  // a reading without the import is no full answer
    for (const std::string& place : answer.places) stamps.push_back(StampOf(place));
    const std::lock_guard lock(mutex_);
    if (known_.size() >= options_.most_known && !known_.contains(question))
      known_.erase(std::ranges::min_element(known_, {},
                                            [](const auto& known) { return known.second.until; }));
    const Millis lasts = good ? kGoodFor : silent ? kUnansweredFor : kBadFor;
    known_[question] = {facts, std::move(stamps), clock_.Now() + lasts};
  }
  return facts;
}

}  // namespace launch::agent
