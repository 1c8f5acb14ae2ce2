#include "cli/import/slurm_options.h"

#include <algorithm>
#include <array>

#include "common/text.h"
#include "common/units.h"
#include "planner/line/shell_text.h"

namespace launch {
namespace {

struct Known {
  std::string_view name;
  char letter = 0;
  bool value = true;
};
constexpr std::array<Known, 51> kKnown = {{{"account", 'A'},
                                           {"array", 'a'},
                                           {"begin", 'b'},
                                           {"chdir", 'D'},
                                           {"comment", 0},
                                           {"constraint", 'C'},
                                           {"contiguous", 0, false},
                                           {"cpus-per-gpu", 0},
                                           {"cpus-per-task", 'c'},
                                           {"deadline", 0},
                                           {"dependency", 'd'},
                                           {"distribution", 'm'},
                                           {"error", 'e'},
                                           {"exclude", 'x'},
                                           {"exclusive", 0, false},
                                           {"export", 0},
                                           {"get-user-env", 0, false},
                                           {"gpu-bind", 0},
                                           {"gpus", 'G'},
                                           {"gpus-per-node", 0},
                                           {"gpus-per-task", 0},
                                           {"gres", 0},
                                           {"hint", 0},
                                           {"hold", 'H', false},
                                           {"input", 'i'},
                                           {"job-name", 'J'},
                                           {"licenses", 'L'},
                                           {"mail-type", 0},
                                           {"mail-user", 0},
                                           {"mem", 0},
                                           {"mem-per-cpu", 0},
                                           {"mem-per-gpu", 0},
                                           {"nice", 0, false},
                                           {"no-requeue", 0, false},
                                           {"nodelist", 'w'},
                                           {"nodes", 'N'},
                                           {"ntasks", 'n'},
                                           {"ntasks-per-gpu", 0},
                                           {"ntasks-per-node", 0},
                                           {"open-mode", 0},
                                           {"output", 'o'},
                                           {"parsable", 0, false},
                                           {"partition", 'p'},
                                           {"priority", 0},
                                           {"qos", 'q'},
                                           {"requeue", 0, false},
                                           {"reservation", 0},
                                           {"signal", 0},
                                           {"switches", 0},
                                           {"time", 't'},
                                           {"wckey", 0}}};

// The option that `name` means; exactly, or as the only one that begins so.
Result<const Known*> LongOption(std::string_view name) {
  const Known* found = nullptr;
  for (const Known& one : kKnown) {
    if (one.name == name) return &one;
    if (!one.name.starts_with(name)) continue;
    if (found != nullptr)
      return Fail(ErrorCode::kInvalidArgument,
                  "--" + std::string(name) + " may mean --" + std::string(found->name) + " or --" +
                      std::string(one.name),
                  "write the option in full");
    found = &one;
  }
  return found;
}

const Known* ShortOption(char letter) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const Known& one) { return one.letter == letter; });
  return found == kKnown.end() ? nullptr : &*found;
}

Result<void> ReadWords(const std::vector<ShellWord>& words, int line,
                       std::vector<SlurmOption>& options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    if (word.size() < 2 || word[0] != '-') continue;  // sbatch passes over it too
    const Known* known = nullptr;
    SlurmOption option{"", "", line};
    bool glued = false;
    if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      option.name = word.substr(2, equals - 2);
      LAUNCH_ASSIGN_OR_RETURN(known, LongOption(option.name));
      glued = equals != std::string::npos;
      if (glued) option.value = word.substr(equals + 1);
    } else {
      option.name = word.substr(1, 1);
      known = ShortOption(word[1]);
      glued = word.size() > 2;
      if (glued) option.value = word.substr(word[2] == '=' ? 3 : 2);
    }
    if (known != nullptr) option.name = std::string(known->name);
    const bool wants =
        known == nullptr ? i + 1 < words.size() && words[i + 1].value[0] != '-' : known->value;
    if (!glued && wants) {
      if (i + 1 >= words.size())
        return Fail(ErrorCode::kInvalidArgument, "--" + option.name + " has no value", "");
      option.value = words[++i].value;
    }
    options.push_back(std::move(option));
  }
  return {};
}

}  // namespace

Result<SlurmScript> ReadSlurmScript(std::string_view text, const std::string& path) {
  SlurmScript script;
  bool commands = false;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::string_view trimmed = Trim(line);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("#SBATCH")) {
      if (commands) {
        script.late.push_back(number);
        continue;
      }
      if (trimmed.find("hetjob") != std::string_view::npos ||
          trimmed.find("packjob") != std::string_view::npos)
        return Fail(ErrorCode::kUnimplemented, "heterogeneous jobs cannot be imported",
                    "write one job file for each part", Where{path, number, 0, {}});
      Result<ShellScript> words = ReadShell(line.substr(7));
      Result<void> read;
      if (!words)
        read = Unexpected(words.error());
      else if (!words->commands.empty())
        read = ReadWords(words->commands.front().words, number, script.options);
      if (!read) {
        Error error = read.error();
        error.where = Where{path, number, 0, {}};
        return Unexpected(std::move(error));
      }
      continue;
    }
    if (line.starts_with("#!")) continue;
    if (!trimmed.empty() && trimmed.front() != '#') commands = true;
    script.body += std::string(line) + "\n";
    script.lines.push_back(number);
  }
  return script;
}

bool IsSbatchOption(std::string_view name) {
  return std::any_of(kKnown.begin(), kKnown.end(),
                     [&](const Known& one) { return one.name == name; });
}

Result<std::string> SlurmTime(const std::string& text) {
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (text.find('-') == std::string::npos && colons < 2) {
    const std::string minutes = text.substr(0, text.find(':'));
    const std::string seconds = colons == 0 ? "0" : text.substr(text.find(':') + 1);
    const auto whole = ParseInt(minutes);
    const auto rest = ParseInt(seconds);
    if (whole && rest && *whole >= 0 && *rest >= 0 && *rest < 60)
      return FormatDurationShort(Millis((*whole * 60 + *rest) * 1000));
  } else if (const Result<Millis> exact = ParseDuration(text)) {
    return text;
  }
  return Fail(ErrorCode::kInvalidArgument, "`" + text + "` is not a time limit of Slurm", "");
}

}  // namespace launch
