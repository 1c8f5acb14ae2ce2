#include "agent/probes/image_prober.h"

#include <sys/stat.h>

#include <string_view>
#include <utility>

#include "agent/account/acting_as.h"
#include "agent/probes/child_process.h"
#include "agent/probes/python_probe.h"
#include "common/text.h"

namespace launch {
extern const std::string_view kPythonProbe;  // python_probe.py
}  // namespace launch

namespace launch::agent {
namespace {

// A start waits for it, and goes on without when it takes longer.
constexpr Millis kInspect{5'000};
constexpr Millis kDeadline{30'000};
constexpr Millis kSilentFor{10 * 60 * 1000};
constexpr Millis kImageGoodFor{24 * 60 * 60 * 1000};
constexpr std::size_t kMostKnown = 256;

// What tells one content from another; empty: the image is not on this node.
std::string ContentOf(const ImageQuestion& question, const std::optional<LocalAccount>& account) {
  if (question.runtime == "docker" || question.runtime == "podman") {
    const auto found =
        RunProgram({question.program, "image", "inspect", "--format", "{{.Id}}", question.image},
                   question.env, kInspect, nullptr, account);
    const bool known = found && found->status && *found->status == 0;
    return known ? std::string(Trim(found->output)) : std::string();
  }
  if (question.file.empty()) return {};
  const ActingAs acting(account);
  struct stat info {};
  if (::stat(question.file.c_str(), &info) != 0) return {};
  return question.file + " " + std::to_string(info.st_ino) + " " +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

}  // namespace

std::vector<std::string> PythonInImage() {
  return {"/bin/sh", "-c",
          "command -v python3 >/dev/null && exec python3 -c \"$0\" import; exec python -c \"$0\" "
          "import",
          ""};
}

void ImageProber::SetDriver(std::string version) {
  const std::lock_guard lock(mutex_);
  driver_ = std::move(version);
}

std::optional<RuntimeFacts> ImageProber::Ask(const ImageQuestion& question,
                                             const std::optional<LocalAccount>& account) {
  const std::string content = ContentOf(question, account);
  if (content.empty() || question.argv.empty()) return std::nullopt;
  Known known{content, account ? account->name : "", ""};
  {
    const std::lock_guard lock(mutex_);
    std::get<2>(known) = driver_;
    const auto found = known_.find(known);
    if (found != known_.end() && clock_.Now() < found->second.second) return found->second.first;
    if (!asking_.insert(std::get<1>(known)).second) return std::nullopt;
  }
  std::vector<std::string> argv = question.argv;
  argv.back() = std::string(kPythonProbe);
  const auto ran = RunProgram(argv, question.env, kDeadline, nullptr, account, scope_);
  const std::lock_guard lock(mutex_);
  asking_.erase(std::get<1>(known));
  if (known_.size() >= kMostKnown) known_.clear();
  if (!ran || !ran->status) {
    known_[known] = {std::nullopt, clock_.Now() + kSilentFor};
    return std::nullopt;
  }
  PythonAnswer answer = ReadPythonAnswer(ran->output);
  RuntimeFacts& facts = answer.facts;
  // Of a runtime that fails, and of an image without Python, the start itself tells more.
  if (facts.python.empty() || !answer.complete) return std::nullopt;
  facts.path = "python3 of image " + question.image;
  facts.realpath = facts.path;
  facts.user = account ? account->name : "";
  facts.probed = clock_.WallNow();
  known_[known] = {facts, clock_.Now() + kImageGoodFor};
  return facts;
}

}  // namespace launch::agent
