#include "agent/runner/rank_commands.h"

#include <algorithm>
#include <map>
#include <utility>

#include "agent/account/acting_as.h"
#include "agent/runner/interpreter.h"
#include "agent/runner/rank_env.h"

namespace launch::agent {
namespace {

constexpr const char* kInDirectory = "cd \"$0\" && exec \"$@\"";

// The PATH of the job is that of its image.
Result<std::string> RuntimeProgram(const AllocationSpec& spec, const std::string& word,
                                   const std::vector<std::string>& env) {
  auto program = FindProgram(word, ValueOf(env, "PATH"), spec.workdir);
  if (!program) program = FindProgram(word, kSystemPath, spec.workdir);
  return program;
}

Result<Contained> ContainedCommand(const CommandWish& wish) {
  ContainerInput input = *wish.container;
  input.argv = wish.shim.argv;
  input.env = wish.shim.env;
  return ContainerCommand(input);
}

// The same command inside of the job's image.
Result<ShimWish> Contain(const AllocationSpec& spec, CommandWish wish) {
  LAUNCH_ASSIGN_OR_RETURN(Contained contained, ContainedCommand(wish));
  LAUNCH_ASSIGN_OR_RETURN(std::string program,
                          RuntimeProgram(spec, contained.argv[0], wish.shim.env));
  wish.shim.argv = std::move(contained.argv);
  wish.shim.argv[0] = std::move(program);
  wish.shim.env = std::move(contained.env);
  return std::move(wish.shim);
}

}  // namespace

std::vector<FoundCommand> FindCommands(const AllocationSpec& spec,
                                       const std::optional<LocalAccount>& account,
                                       std::vector<CommandWish> wishes) {
  const ActingAs acting(account);
  std::map<std::string, Result<std::string>> interpreters;  // by PATH, which ranks share
  std::vector<FoundCommand> found;
  for (CommandWish& wish : wishes) {
    std::vector<std::string>& argv = wish.shim.argv;
    if (std::ranges::find(argv, "") != argv.end()) {
      const std::string path = ValueOf(wish.shim.env, "PATH");
      if (!interpreters.contains(path)) interpreters.emplace(path, ResolveInterpreter(spec, path));
      const Result<std::string>& interpreter = interpreters.at(path);
      if (!interpreter) {
        found.push_back({wish.rank, Unexpected(interpreter.error()), "interpreter"});
        continue;
      }
      std::ranges::replace(argv, std::string(), *interpreter);
    }
    if (wish.container) {
      const Rank rank = wish.rank;
      found.push_back({rank, Contain(spec, std::move(wish)), "container"});
    } else {
      found.push_back({wish.rank, std::move(wish.shim), {}});
    }
  }
  return found;
}

std::optional<ImageCommand> FindImageCommand(const AllocationSpec& spec,
                                             const std::optional<LocalAccount>& account,
                                             const CommandWish& wish) {
  const auto contained = ContainedCommand(wish);
  if (!contained) return std::nullopt;
  const ActingAs acting(account);
  const auto program = RuntimeProgram(spec, spec.container->runtime, wish.shim.env);
  const auto first_word = RuntimeProgram(spec, contained->argv[0], wish.shim.env);
  if (!program || !first_word) return std::nullopt;
  ImageCommand image{*program, *contained};
  image.command.argv[0] = *first_word;
  // Images may be named from there.
  image.command.argv.insert(image.command.argv.begin(),
                            {"/bin/bash", "-c", kInDirectory, spec.workdir});
  if (!image.command.file.empty() && image.command.file[0] != '/')
    image.command.file = spec.workdir + "/" + image.command.file;
  return image;
}

}  // namespace launch::agent
