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

// "consider using", "please try using": a hint of what could be done, not what the program does.
bool IsAdvised(std::string_view lower, std::size_t use) {
  std::string_view before = lower.substr(0, use);
  while (before.ends_with(' ')) before.remove_suffix(1);
  return std::ranges::any_of(std::initializer_list<std::string_view>{"consider", "try", "recommend",
                                                                     "please", "by", "avoid"},
                             [&](std::string_view word) { return before.ends_with(word); });
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
  return with != std::string_view::npos && instead - with < kLongestMeans &&
         !IsAdvised(lower, with);
}

// "I0501 10:00:00.000000 140 service.cc:145] ...", TensorFlow's "I tensorflow/x.cc:304] ...".
bool IsInfoOfGlog(std::string_view bare) {
  constexpr std::size_t kLongestHead = 120;
  return bare.size() > 2 && bare[0] == 'I' &&
         (bare[1] == ' ' || (bare[1] >= '0' && bare[1] <= '1')) &&
         bare.substr(0, kLongestHead).find("] ") != std::string_view::npos;
}

// "W0501 10:00:00.000000 140 x.cc:12] ...", "[W1120 10:11:12.1 x.cpp:759] ..." of c10,
// TensorFlow's "W tensorflow/x.cc:304] ...".
bool IsWarningOfGlog(std::string_view bare) {
  constexpr std::size_t kLongestHead = 120;
  if (bare.starts_with('[')) bare.remove_prefix(1);
  if (bare.size() < 6 || bare[0] != 'W') return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (bare[1] != ' ' && !std::all_of(bare.begin() + 1, bare.begin() + 5, is_digit)) return false;
  const std::string_view head = bare.substr(0, kLongestHead);
  // What an operator of the graph ended with.
  return head.find("] ") != std::string_view::npos &&
         !HasAny(bare, {"OP_REQUIRES failed", "raises an exception"});
}

// "mlflow.utils - WARNING - ...", "main.py:12 [WARNING] ...": one or two words, then the level.
bool IsWarningOfLogger(std::string_view bare) {
  constexpr std::size_t kLongestHead = 80;
  constexpr int kMostWords = 2;
  constexpr std::string_view kLevel = "WARNING";
  const std::size_t at = bare.substr(0, kLongestHead).find(kLevel);
  if (at == std::string_view::npos || at == 0 || at + kLevel.size() >= bare.size()) return false;
  const char behind = bare[at + kLevel.size()];
  if (std::string_view(" :]|-)").find(behind) == std::string_view::npos) return false;
  const std::string_view head = bare.substr(0, at);
  int words = 0;
  bool in_word = false;
  for (const char c : head) {
    if (c != ' ' && !in_word && c != '-' && c != '|' && c != '[') ++words;
    in_word = c != ' ';
  }
  return words <= kMostWords &&
         std::string_view(" [|(-").find(head.back()) != std::string_view::npos;
}

// "/v/x.py:12: UserWarning: ..." of Python's warnings.
bool IsWarningOfPython(std::string_view bare) {
  constexpr std::size_t kLongestPath = 300;
  const std::size_t at = bare.substr(0, kLongestPath).find("Warning: ");
  return at != std::string_view::npos && bare.substr(0, at).find(".py:") != std::string_view::npos;
}

// An event of Kubernetes: its kind is called a warning, and tells of the end.
bool IsOfKubernetes(std::string_view bare) {
  return HasAny(bare, {"kubelet", "kernel-monitor", "default-scheduler", " Evicted "});
}

// What a model was asked and said, as training scripts print it.
bool IsOfConversation(std::string_view bare, std::string_view lower) {
  const std::size_t colon = lower.substr(0, 32).find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view head = lower.substr(0, colon);
  const std::string_view said =
      lower.substr(std::min(lower.find_first_not_of(' ', colon + 1), lower.size()));
  if (IsOfException(bare.substr(bare.size() - said.size())) ||
      StartsWithAny(said, {"cuda", "nccl", "error", "fatal", "[error"}))
    return false;
  if (head.starts_with("### "))
    return !HasAny(head, {"error", "fatal", "fail", "abort", "crash", "exception"});
  const bool is_plain = std::ranges::all_of(head, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' || c == '#';
  });
  return is_plain && std::ranges::any_of(
                         std::initializer_list<std::string_view>{
                             "sample", "samples", "prompt", "completion", "generated", "question",
                             "assistant", "instruction"},
                         [&](std::string_view word) {
                           return head.starts_with(word) &&
                                  (head.size() == word.size() || head[word.size()] < 'a' ||
                                   head[word.size()] > 'z');
                         });
}

// Tools that a script calls; it goes on behind their complaints unless it was told not to.
bool IsOfTool(std::string_view bare) {
  return StartsWithAny(bare, {"cp: ", "mv: ", "ln: ", "rsync: ", "stat: ", "tail: ", "head: ",
                              "find: ", "chmod: ", "chown: ", "touch: ", "sed: ", "grep: "});
}

// "nvidia-smi: command not found": a command that only shows something is not there.
bool IsOfDisplay(std::string_view bare) {
  return bare.ends_with("not found") && HasAny(bare, {" nvidia-smi: ", " lspci: ", " ibstat: ",
                                                      " tput: ", " clear: ", " tree: ", " htop: "});
}

// "If you get `CUDA error: ...` errors, the above might be the cause": nothing of it happened yet.
bool IsConditional(std::string_view bare) {
  for (const std::string_view call : {"warn(", "warnings.warn(", "\"", "'", "f\""})
    if (bare.starts_with(call)) bare.remove_prefix(call.size());
  return StartsWithAny(bare, {"If you get ", "If you see ", "If you encounter ",
                              "If you are getting ", "If you're getting ", "If you run into "});
}

// "; checkpointing disabled": the program does without it. What a library or the network gives can
// be done without.
bool IsDoneWithout(std::string_view bare, std::string_view lower, std::string_view label) {
  if (!lower.ends_with(" disabled") && !lower.ends_with(" disabled.")) return false;
  return (label == "hub_offline" || label.starts_with("lib_") || label == "nccl_network" ||
          label == "python_import") &&
         !StartsWithAny(bare, {"FATAL", "ERROR", "CRITICAL", "[FATAL", "[ERROR"});
}

}  // namespace

bool IsClassName(std::string_view name) {
  bool capital = false;
  bool small = false;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    if (!upper && !lower && !(c >= '0' && c <= '9') && c != '_' && c != '.') return false;
    capital = capital || upper;
    small = small || lower;
  }
  return capital && small;
}

bool IsOfException(std::string_view text) {
  const std::string_view name = text.substr(0, std::min(text.find(':'), text.size()));
  if (name.size() >= kLongestClass || !IsClassName(name)) return false;
  if (name.ends_with("Error") || name.ends_with("Exception")) return true;
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < name.size() && name[dot + 1] >= 'A' &&
         name[dot + 1] <= 'Z';
}

bool AnnouncesNext(std::string_view text) {
  return HasAny(Lower(text),
                {"starting from scratch", "trying to resume", "using ", "fallback to"});
}

int LifeIn(std::string_view text) {
  if (text.empty() || text[0] == ' ' || SaysItGoesOn(text)) return 0;
  const std::string lower = Lower(text);
  const bool has_word =
      std::ranges::any_of(lower, [](char c) { return (c >= 'a' && c <= 'z') || c == '%'; });
  if (!has_word || text.starts_with('+') ||
      HasAny(lower,
             {"error",     "exception",     "traceback",  "fail",      "fatal",      "crash",
              "abort",     "kill",          "terminat",   "signal",    "exit",       "srun",
              "slurm",     "scancel",       "wandb",      "elastic",   "torchrun",   "deepspeed",
              "launcher",  "launch.py",     "root cause", "rank  ",    "error_file", "host  ",
              "time  ",    "shut",          "stop",       "clean",     "leaked",     "destroy",
              "dump",      "core",          "upload",     "sync",      "sav",        "finish",
              "complete",  "done",          "elapsed",    "end",       "warn",       "[w",
              "nccl",      "process group", "make: ",     "make[",     "date",       "job",
              "pointless", "giving up",     "bye",        "total time"}))
    return 0;
  return HasAny(lower, {"step", "epoch", "iter", "loss", "it/s", "s/it", "batch"}) ? 2 : 1;
}

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
                        "\"message\":", "\"msg\":", "\"log\":", "\"lvl\"", "\"ts\"", "\"@",
                        "\"logger\"", "\"stream\""});
}

bool IsOfShell(std::string_view text) {
  return StartsWithAny(text, {"bash: ", "sh: ", "-bash: ", "zsh: ", "/bin/bash: ", "/bin/sh: "});
}

bool IsWarning(std::string_view text) {
  constexpr std::string_view kTime = " *#>!-=|([<])0123456789:/.,+";
  constexpr std::size_t kLongestTime = 40;
  constexpr std::size_t kLongestLevel = 10;
  const std::size_t begin = std::min(text.find_first_not_of(kTime), text.size());
  if (begin > kLongestTime) return false;
  const std::string_view bare = text.substr(begin);
  if (IsOfKubernetes(bare)) return false;
  if (IsWarningOfGlog(bare) || IsWarningOfLogger(bare) || IsWarningOfPython(text)) return true;
  const std::string level = Lower(bare.substr(0, kLongestLevel));
  const std::size_t end =
      std::min(level.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), level.size());
  const std::string_view word = std::string_view(level).substr(0, end);
  if (word == "warn" || word == "warning") return end < bare.size();
  const bool is_advice = word == "hint" || word == "tip" || word == "note" || word == "notice";
  return is_advice && end < level.size() &&
         (level[end] == ':' || level[end] == ']' || level.substr(end).starts_with(" that "));
}

bool IsMeantByWarning(std::string_view label) {
  static constexpr std::string_view kLabels[] = {"activation_failed",
                                                 "checkpoint_corrupt",
                                                 "cuda_oom",
                                                 "cuda_oom_foreign_process",
                                                 "cuda_oom_fragmentation",
                                                 "dataloader_worker_killed",
                                                 "deepspeed_op_build",
                                                 "disk_full",
                                                 "duplicate_gpu",
                                                 "file_not_found",
                                                 "host_oom_kill",
                                                 "hub_offline",
                                                 "invalid_device_ordinal",
                                                 "launcher_args",
                                                 "lib_abi_mismatch",
                                                 "nccl_shm_full",
                                                 "permission",
                                                 "port_in_use",
                                                 "precision_unsupported",
                                                 "python_import",
                                                 "shm_bus_error",
                                                 "storage_io",
                                                 "too_many_open_files",
                                                 "toolkit_mismatch",
                                                 "torch_cpu_only",
                                                 "unknown"};
  return std::ranges::find(kLabels, label) != std::end(kLabels);
}

bool IsInPassing(std::string_view text, std::string_view label) {
  if (SaysItGoesOn(text)) return true;
  const std::string_view bare = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  if (StartsWithAny(bare, {"[INFO]", "INFO:", "INFO "}) || IsInfoOfGlog(bare)) return true;
  if (IsOfException(bare)) return false;
  if (IsConditional(bare)) return true;
  const std::string lower = Lower(bare);
  if (IsDoneWithout(bare, lower, label)) return true;
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
  if (label == "file_not_found" && IsOfDisplay(bare)) return true;
  return IsOfConversation(bare, lower);
}

}  // namespace launch
