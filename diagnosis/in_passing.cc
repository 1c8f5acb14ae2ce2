#include "diagnosis/in_passing.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::size_t kLongestClass = 80;
constexpr std::size_t kLongestMeans = 60;  // between "using" and "instead"

bool HasAny(std::string_view text, std::initializer_list<std::string_view> marks) {
  return std::ranges::any_of(
      marks, [&](std::string_view mark) { return text.find(mark) != std::string_view::npos; });
}

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> marks) {
  return std::ranges::any_of(marks, [&](std::string_view mark) { return text.starts_with(mark); });
}

// "KeyError: 'x'", "torch.OutOfMemoryError: ...": what an uncaught exception ends with.
bool IsOfException(std::string_view text) {
  const std::string_view name = text.substr(0, std::min(text.find(':'), text.size()));
  return name.size() < kLongestClass && name.find(' ') == std::string_view::npos &&
         (name.ends_with("Error") || name.ends_with("Exception"));
}

// "; using sdpa", ", using fp16 instead": the program names what it takes in its place.
bool NamesItsMeans(std::string_view text, std::string_view lower) {
  for (const std::string_view mark : {"; using ", ", using "}) {
    const std::size_t at = lower.rfind(mark);
    if (at != std::string_view::npos && lower.find(' ', at + mark.size()) == std::string_view::npos)
      return true;
  }
  const std::size_t instead = lower.rfind(" instead");
  if (instead == std::string_view::npos || IsOfException(text)) return false;
  const std::size_t with = lower.rfind("using ", instead);
  return with != std::string_view::npos && instead - with < kLongestMeans;
}

// "I0501 10:00:00.000000 140 service.cc:145] ...", TensorFlow's "I tensorflow/x.cc:304] ...".
bool IsInfoOfGlog(std::string_view bare) {
  constexpr std::size_t kLongestHead = 120;
  return bare.size() > 2 && bare[0] == 'I' &&
         (bare[1] == ' ' || (bare[1] >= '0' && bare[1] <= '1')) &&
         bare.substr(0, kLongestHead).find("] ") != std::string_view::npos;
}

// What a model was asked and said, as training scripts print it.
bool IsOfConversation(std::string_view lower) {
  const std::size_t colon = lower.substr(0, 32).find(':');
  return colon != std::string_view::npos &&
         StartsWithAny(lower, {"sample", "prompt", "completion", "generated", "question",
                               "assistant", "instruction", "### "});
}

// Tools that a script calls; it goes on behind their complaints unless it was told not to.
bool IsOfTool(std::string_view bare) {
  return StartsWithAny(bare, {"cp: ", "mv: ", "ln: ", "rsync: ", "stat: ", "tail: ", "head: ",
                              "find: ", "chmod: ", "chown: ", "touch: ", "sed: ", "grep: "});
}

}  // namespace

bool SaysItGoesOn(std::string_view text) {
  const std::string lower = Lower(text);
  return HasAny(lower, {"falling back",
                        "fallback to",
                        "skipping",
                        "retrying",
                        "will retry",
                        "starting from scratch",
                        "continuing",
                        "trying to resume",
                        "going to /tmp instead",
                        "ignoring this choice",
                        "will continue",
                        "using fallback",
                        "will not be enabled",
                        "won't be available",
                        "(ignored)",
                        "entering retry loop",
                        "using the cached",
                        "using the latest cached",
                        "using cached",
                        "replaced by a random"}) ||
         NamesItsMeans(text, lower);
}

bool IsNoMessage(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::string_view bare = text.substr(begin);
  if (StartsWithAny(bare, {"Namespace(", "+ "}) || (begin > 0 && bare.starts_with("--")))
    return true;
  return bare.starts_with('{') &&
         HasAny(bare, {"\"text\":", "\"prompt\":", "\"completion\":", "\"instruction\":",
                       "\"content\":", "\"question\":", "\"answer\":", "\"conversations\":"}) &&
         !HasAny(bare, {"\"level", "\"severity", "\"record\":", "\"exc_info", "\"time",
                        "\"message\":", "\"msg\":", "\"log\":"});
}

bool IsOfShell(std::string_view text) {
  return StartsWithAny(text, {"bash: ", "sh: ", "-bash: ", "zsh: ", "/bin/bash: ", "/bin/sh: "});
}

bool IsInPassing(std::string_view text, std::string_view label) {
  if (SaysItGoesOn(text)) return true;
  const std::string_view bare = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  if (StartsWithAny(bare, {"[INFO]", "INFO:", "INFO "}) || IsInfoOfGlog(bare)) return true;
  if (IsOfException(bare)) return false;
  const std::string lower = Lower(bare);
  if (lower.ends_with(" disabled") || lower.ends_with(" disabled.")) return true;
  // What Python warns of; of a GPU that torch cannot use it means it.
  if ((label == "hub_offline" || label == "nccl_network" || label == "file_not_found" ||
       label == "permission" || label == "lib_abi_mismatch") &&
      bare.find("UserWarning: ") != std::string_view::npos)
    return true;
  if (label == "lib_abi_mismatch" || label == "python_import")
    if (StartsWithAny(lower, {"could not load", "couldn't load", "failed to load", "unable to load",
                              "could not import", "failed to import", "unable to import"}))
      return true;
  if ((label == "file_not_found" || label == "permission") && IsOfTool(bare)) return true;
  return IsOfConversation(lower);
}

}  // namespace launch
