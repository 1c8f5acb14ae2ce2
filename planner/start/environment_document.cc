// docs/environment.md as text: the table of planner/start/environment_table.cc for readers.
#include <array>
#include <utility>

#include "planner/start/environment.h"

namespace launch {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kGroups = {{
    {"torch", "What torch reads"},
    {"elastic", "What torchrun would add"},
    {"deepspeed", "What DeepSpeed's launcher would add"},
    {"devices", "Devices"},
    {"network", "Network"},
    {"host", "Host"},
    {"plan", "The plan"},
    {"job", "The job"},
}};

std::string_view KnownText(Known known) {
  switch (known) {
    case Known::kPlan:
      return "plan";
    case Known::kAttempt:
      return "attempt";
    case Known::kStart:
      return "start";
    case Known::kNode:
      return "node";
  }
  return "";
}

constexpr std::string_view kOpening = R"(# What a rank sees

<!-- Made by the program environment-doc: the tables from planner/start/environment_table.cc, all else from
     planner/start/environment_document.cc; edit there. -->

The environment of a rank is, in this order:

1. the clean base of its node: HOME, USER, SHELL, LANG, TMPDIR, and PATH and LD_LIBRARY_PATH of
   `agent.yaml`. Nothing else leaks from the agent or from the shell of the submitter. A node that runs
   each job as its owner's account sets HOME, USER, LOGNAME and SHELL itself: a plan shows HOME=~;
2. the job's interpreter: `venv:` sets VIRTUAL_ENV and puts its `bin` in front of PATH (an active
   venv of the submitter is the default); `python:` puts its directory in front of PATH;
3. `env:` in the order written. `$NAME`, `${NAME}`, `${NAME:-otherwise}` and `${NAME:+when set}`
   expand on the node against what stands before them; a name that is not set is an error at submit.
   An entry without a value is taken from the submitter's environment and required there;
4. the variables below. Where the last column says *yes*, a value in `env:` wins; the others are
   refused in `env:`, because another value would hang the job or make the plan untrue.

*Known* says when the value is fixed: with the **plan**; with the **attempt**'s number; at the
**start**, by the controller; on the **node**, where the attempt's directory is. `launch plan` lists
those that are not known yet under `late`; everything else it shows is what the rank gets.

In `run`, a `$LAUNCH_...` variable that the plan does not set is an error at submit, unless it is
written as `${NAME:-otherwise}` or `${NAME:+when set}`.
)";

}  // namespace

std::string EnvironmentDocument() {
  std::string text(kOpening);
  for (const auto& [group, title] : kGroups) {
    text += "\n## " + std::string(title) +
            "\n\n| Variable | Set | Meaning | Known | `env:` wins |\n|---|---|---|---|---|\n";
    for (const EnvRule& rule : EnvironmentTable()) {
      if (rule.group != group) continue;
      text += "| `" + std::string(rule.name) + "` | " + std::string(rule.when) + " | " +
              std::string(rule.meaning) + " | " + std::string(KnownText(rule.known)) + " | " +
              (rule.overridable ? "yes" : "no") + " |\n";
    }
  }
  return text;
}

}  // namespace launch
