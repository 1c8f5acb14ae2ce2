#include "planner/script_habits.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/units.h"
#include "planner/script_flags.h"

namespace launch {
namespace {

// Without blanks and comments, with one kind of quote: spellings differ in no more than that.
std::string Squeezed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool comment = false;
  for (char c : text) {
    if (c == '\n') comment = false;
    if (c == '#') comment = true;
    if (comment) continue;
    if (c == '\n') {
      out += c;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      out += c == '\'' ? '"' : c;
    }
  }
  return out;
}

bool Has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// `environ["X"]=value`, not a comparison.
bool Assigns(const std::string& text, std::string_view target) {
  for (std::size_t at = text.find(target); at != std::string::npos;
       at = text.find(target, at + 1)) {
    const std::size_t behind = at + target.size();
    if (behind < text.size() && text[behind] != '=') return true;
  }
  return false;
}

const std::string* TextOf(const LaunchLine& line, const std::map<std::string, std::string>& files) {
  const auto found = line.script.empty() ? files.end() : files.find(line.script);
  return found == files.end() ? nullptr : &found->second;
}

}  // namespace

ScriptHabits HabitsIn(std::string_view text) {
  constexpr std::array<std::string_view, 8> kOptional = {"environ.get(\"RANK\",-1)",
                                                         "environ.get(\"RANK\",\"-1\")",
                                                         "environ.get(\"LOCAL_RANK\",-1)",
                                                         "environ.get(\"LOCAL_RANK\",\"-1\")",
                                                         "getenv(\"RANK\",-1)",
                                                         "getenv(\"LOCAL_RANK\",-1)",
                                                         "\"RANK\"inos.environ",
                                                         "\"LOCAL_RANK\"inos.environ"};
  constexpr std::array<std::string_view, 5> kSpawns = {"mp.spawn(", "multiprocessing.spawn(",
                                                       "xmp.spawn(", "notebook_launcher(",
                                                       "mp.start_processes("};
  const std::string squeezed = Squeezed(text);
  ScriptHabits habits;
  // A script that only asks, or that has a way without CUDA, keeps the variables of every start.
  habits.optional_rank = Has(squeezed, "init_process_group(") &&
                         Has(squeezed, "cuda.set_device(") &&
                         std::any_of(kOptional.begin(), kOptional.end(),
                                     [&](std::string_view what) { return Has(squeezed, what); });
  if (!Has(squeezed, "\"LOCAL_RANK\"")) {
    for (std::string_view what : kSpawns) {
      if (!Has(squeezed, what)) continue;
      habits.spawns = std::string(what.substr(0, what.size() - 1));
      break;
    }
  }
  habits.sets_devices = Assigns(squeezed, "environ[\"CUDA_VISIBLE_DEVICES\"]=");
  return habits;
}

ScriptHabits HabitsOf(const LaunchLine& line, const std::map<std::string, std::string>& files) {
  const std::string* text = line.python ? TextOf(line, files) : nullptr;
  return text == nullptr ? ScriptHabits{} : HabitsIn(*text);
}

std::string StartsProcesses(const LaunchLine& line, const ScriptHabits& habits) {
  if (!line.python) return {};
  if (!habits.spawns.empty()) {
    return line.script + " starts its processes itself (" + habits.spawns + ")";
  }
  bool config = false;
  bool several = false;
  for (const ScriptFlag& flag : ReadScriptFlags(line.arguments)) {
    if (flag.name == "multiprocessing_distributed") {
      return flag.flag + ": " + line.script + " starts its processes itself";
    }
    config = config || flag.name == "config_file";
    // detectron2's engine: one process starts --num-gpus of them.
    const auto number = flag.value ? ParseInt(*flag.value) : std::nullopt;
    several = several || (flag.name == "num_gpus" && (!number || *number > 1));
  }
  if (config && several) return "--num-gpus: " + line.script + " starts its processes itself";
  return {};
}

std::optional<Finding> DevicesSetIn(const LaunchLine& line,
                                    const std::map<std::string, std::string>& files) {
  const std::string* text = TextOf(line, files);
  // Spelling out what a script does takes time that most need not.
  if (text == nullptr || !Has(*text, "CUDA_VISIBLE_DEVICES")) return std::nullopt;
  if (!HabitsIn(*text).sets_devices) return std::nullopt;
  return MakeFinding(
      "visible_devices_set", Severity::kWarning,
      line.script + " sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
      "take the line out of the script; for particular devices write gpu_ids");
}

}  // namespace launch
