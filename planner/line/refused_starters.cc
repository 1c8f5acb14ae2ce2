#include "planner/line/refused_starters.h"

#include <algorithm>
#include <array>

#include "planner/line/launcher_words.h"

namespace launch {
namespace {

enum class Reach { kAlways, kRanks, kWithTraining, kRun, kJob };

struct Rule {
  std::string_view program;
  Reach reach;
  std::string_view hint;
};

constexpr std::string_view kEveryNode =
    "leave it and its options out: launch starts the command on every node of the job itself";
constexpr std::string_view kSlurm =
    "leave srun and its options out: launch starts the command on every node of the job itself; "
    "`launch import FILE` makes a job of a whole sbatch script";
constexpr std::string_view kMpi =
    "leave it and its options out: `run: python train.py` starts a process per GPU (or "
    "procs_per_node: N) on every node, with RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR set; "
    "`launcher: process` starts the text once per rank as it is";
constexpr std::string_view kContainer =
    "write image: IMAGE, mounts: [...] and the command of the container as run: ; processes of the "
    "container's daemon could neither be watched nor ended";
constexpr std::string_view kRay =
    "run what ray would run: launch starts it where the GPUs are; a Ray cluster of its own is not "
    "something launch can watch";

constexpr std::string_view kSubmit =
    "leave it out and write what the batch job itself runs: launch is the scheduler here";

constexpr std::string_view kTerminal =
    "leave it out: a job runs without a terminal anyway; `launch logs -f JOB` shows what it "
    "prints, "
    "`launch shell JOB` opens one beside it";

constexpr std::array<Rule, 30> kRules = {{
    {"srun", Reach::kRanks, kSlurm},
    {"sbatch", Reach::kAlways, kSlurm},
    {"salloc", Reach::kAlways, kSlurm},
    {"qsub", Reach::kAlways, kSubmit},
    {"bsub", Reach::kAlways, kSubmit},
    {"condor_submit", Reach::kAlways, kSubmit},
    {"jsrun", Reach::kAlways, kMpi},
    {"aprun", Reach::kAlways, kMpi},
    {"flux", Reach::kRun, kMpi},
    {"ipexrun", Reach::kAlways, kMpi},
    {"mpirun", Reach::kRanks, kMpi},
    {"mpiexec", Reach::kRanks, kMpi},
    {"mpiexec.hydra", Reach::kRanks, kMpi},
    {"ompirun", Reach::kRanks, kMpi},
    {"orterun", Reach::kRanks, kMpi},
    {"horovodrun", Reach::kRanks, kMpi},
    {"torchpippy-run", Reach::kAlways, kMpi},
    {"ssh", Reach::kWithTraining, kEveryNode},
    {"pdsh", Reach::kWithTraining, kEveryNode},
    {"pssh", Reach::kWithTraining, kEveryNode},
    {"parallel-ssh", Reach::kWithTraining, kEveryNode},
    {"clush", Reach::kWithTraining, kEveryNode},
    {"docker", Reach::kRun, kContainer},
    {"podman", Reach::kRun, kContainer},
    {"nvidia-docker", Reach::kRun, kContainer},
    {"docker-compose", Reach::kRun, kContainer},
    {"kubectl", Reach::kRun, kEveryNode},
    {"screen", Reach::kWithTraining, kTerminal},
    {"tmux", Reach::kWithTraining, kTerminal},
    {"ray", Reach::kJob, kRay},
}};

}  // namespace

std::optional<RefusedStarter> FindRefused(const std::vector<ShellWord>& words, std::size_t at) {
  const std::string_view program = ProgramOf(words[at]);
  const auto* const rule = std::find_if(kRules.begin(), kRules.end(),
                                        [&](const Rule& r) { return r.program == program; });
  if (rule == kRules.end()) return std::nullopt;
  const auto behind = [&](std::size_t i) { return i < words.size() ? words[i].value : ""; };
  const bool compose = behind(at + 1) == "compose";  // docker compose run
  const std::string verb = behind(at + (compose ? 2 : 1));
  const std::string alone(program);
  switch (rule->reach) {
    case Reach::kAlways:
      return RefusedStarter{alone};
    case Reach::kRanks:
      return RefusedStarter{.program = alone, .starts_ranks = true};
    case Reach::kWithTraining:
      return RefusedStarter{alone, true};
    case Reach::kRun:
      if (verb != "run" && verb != "exec") return std::nullopt;
      return RefusedStarter{alone + " " + verb, true};
    case Reach::kJob:
      if (verb != "job") return std::nullopt;
      return RefusedStarter{alone + " " + verb};
  }
  return std::nullopt;
}

std::string HintInsteadOf(std::string_view program) {
  const std::string_view word = program.substr(0, program.find(' '));
  for (const Rule& rule : kRules) {
    if (rule.program == word) return std::string(rule.hint);
  }
  return {};
}

}  // namespace launch
