#include "cli/top_help.h"

#include <CLI/CLI.hpp>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "common/text.h"

namespace launch {
namespace {

struct VerbLine {
  std::string_view name;
  std::string_view says;  // empty: what the verb's own help says
};

constexpr VerbLine kRun[] = {
    {"submit", ""}, {"run", "Submit a job, show its output, exit with its code"},
    {"plan", ""},   {"check", "Find what would stop a job; check nodes"},
    {"init", ""},   {"import", "Convert an sbatch, hostfile, accelerate or SkyPilot file"},
};
constexpr VerbLine kLook[] = {
    {"queue", ""},
    {"status", ""},
    {"explain", "Show why a job waits, its expected start, what would help"},
    {"why", ""},
    {"logs", ""},
    {"events", ""},
    {"history", "List finished jobs and how much of their time trained"},
    {"top", "Watch GPUs and jobs on the full screen"},
};
constexpr VerbLine kSteer[] = {
    {"wait", ""}, {"cancel", ""}, {"hold", ""}, {"release", ""}, {"requeue", ""}, {"update", ""},
};
constexpr VerbLine kInside[] = {
    {"exec", "Run a command beside a rank; exit with its code"},
    {"shell", "Open a terminal beside a rank"},
    {"cp", "Copy files from a job (JOB:path .) or to one (path JOB:path)"},
    {"env", ""},
};
constexpr VerbLine kCluster[] = {
    {"nodes", ""},
    {"node", "Manage nodes: status, drain, undrain, fence, forget, remove"},
    {"drain", ""},
    {"undrain", ""},
    {"quarantine", "GPUs not proved free: list, retest, release"},
    {"up", ""},
    {"upgrade", "Install this release on a cluster that `launch up` made"},
    {"down", ""},
    {"dev", "The embedded cluster of this machine: up, status, down"},
    {"context", "Clusters this machine knows; use, rename, forget"},
    {"login", ""},
    {"token", "Join tokens for users and nodes: create, list, revoke"},
    {"server", "The controller's store: check, backup, restore"},
};
constexpr VerbLine kOffline[] = {
    {"diagnose", ""}, {"bundle", ""}, {"calibration", ""}, {"completion", ""}, {"version", ""},
};

struct VerbGroup {
  std::string_view title;
  std::span<const VerbLine> verbs;
};
const std::array<VerbGroup, 6> kGroups = {{{"Run jobs", kRun},
                                           {"Inspect", kLook},
                                           {"Control jobs", kSteer},
                                           {"Inside a job", kInside},
                                           {"Nodes and clusters", kCluster},
                                           {"Offline and help", kOffline}}};

std::string Line(std::string_view left, std::size_t width, std::string_view says) {
  std::string line = "  " + std::string(left);
  line.append(line.size() < width ? width - line.size() : 1, ' ');
  return line.append(says) + "\n";
}

std::string VerbText(const CLI::App& verb, std::string_view says) {
  constexpr std::size_t kVerbWidth = 15;
  std::string text(says.empty() ? std::string_view(verb.get_description()) : says);
  if (!verb.get_aliases().empty()) text += " (also " + Joined(verb.get_aliases(), ", ") + ")";
  return Line(verb.get_name(), kVerbWidth, text);
}

std::string FlagsText(const CLI::App& parser) {
  constexpr std::size_t kFlagWidth = 26;
  std::string text = "\nFlags of every verb\n";
  for (const CLI::Option* flag : parser.get_options()) {
    const bool takes_value = flag->get_type_size() > 0;
    const std::string name = flag->get_name(false, true);
    text += Line(takes_value ? name + " " + flag->get_type_name() : name, kFlagWidth,
                 flag->get_description());
  }
  return text;
}

}  // namespace

std::string TopHelp(const CLI::App& parser) {
  std::string text = parser.get_description() + "\nUsage: launch [FLAGS] VERB ...\n";
  std::set<const CLI::App*> shown;
  for (const VerbGroup& group : kGroups) {
    text += "\n" + std::string(group.title) + "\n";
    for (const VerbLine& line : group.verbs) {
      const CLI::App* verb = parser.get_subcommand(std::string(line.name));
      text += VerbText(*verb, line.says);
      shown.insert(verb);
    }
  }
  // Nothing is hidden because nobody gave it a group.
  for (const CLI::App* verb : parser.get_subcommands([](const CLI::App*) { return true; }))
    if (!shown.contains(verb)) text += VerbText(*verb, "");
  return text + FlagsText(parser) + "\n`launch VERB --help` has the flags of a verb.\n";
}

}  // namespace launch
