#include "cli/submit_context.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/environment_variable.h"
#include "cli/named_files.h"
#include "cli/snapshot/git_state.h"
#include "common/account.h"
#include "common/first_line.h"

namespace launch {
std::string CurrentDirectory() {
  // The logical name of the shell, when it still means this directory: it is what the user typed.
  const std::string logical = EnvironmentVariable("PWD");
  struct stat a {};
  struct stat b {};
  if (logical.starts_with("/") && stat(logical.c_str(), &a) == 0 && stat(".", &b) == 0 &&
      a.st_ino == b.st_ino && a.st_dev == b.st_dev)
    return logical;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? "/" : path.string();
}

Result<SubmitterFacts> ReadSubmitterFacts(const JobSpec& spec, const std::string& cwd) {
  SubmitterFacts facts;
  SubmitContext& context = facts.context;
  context.submit_dir = cwd;
  context.user = OwnAccount();
  context.host_boot_id = KernelBootId();
  context.active_venv = EnvironmentVariable("VIRTUAL_ENV");
  if (context.active_venv.empty()) context.active_conda = EnvironmentVariable("CONDA_PREFIX");
  struct stat workdir {};
  if (stat(spec.workdir.c_str(), &workdir) == 0) {
    context.workdir_inode = workdir.st_ino;
    context.workdir_mtime_ns = std::int64_t{workdir.st_mtim.tv_sec} * 1'000'000'000 +
                               std::int64_t{workdir.st_mtim.tv_nsec};
    GitState git = ReadGitState(spec.workdir);
    context.git_commit = std::move(git.commit);
    context.git_diff = std::move(git.diff);
  }
  LAUNCH_ASSIGN_OR_RETURN(context.files, ReadNamedFiles(spec));
  const auto from_caller = [](const std::string& name) -> Result<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr)
      return Fail(ErrorCode::kInvalidArgument,
                  "the job requires " + name + " from you, and it is not set here",
                  "export " + name + "=..., or `-e " + name + "=...`");
    return std::string(value);
  };
  const auto is_secret = [&](const std::string& name) {
    return std::find(spec.secrets.begin(), spec.secrets.end(), name) != spec.secrets.end();
  };
  for (const EnvEntry& entry : spec.env) {
    if (entry.value || is_secret(entry.name)) continue;
    LAUNCH_ASSIGN_OR_RETURN(context.caller_env[entry.name], from_caller(entry.name));
  }
  for (const std::string& name : spec.secrets) {
    const bool written = std::any_of(spec.env.begin(), spec.env.end(),
                                     [&](const EnvEntry& e) { return e.name == name && e.value; });
    if (written)
      return Fail(ErrorCode::kInvalidArgument, "the secret " + name + " has its value in the job",
                  "leave the value empty; it is taken from your environment and never stored");
    LAUNCH_ASSIGN_OR_RETURN(std::string value, from_caller(name));
    facts.secrets.emplace_back(name, std::move(value));
  }
  std::sort(facts.secrets.begin(), facts.secrets.end());
  facts.secrets.erase(std::unique(facts.secrets.begin(), facts.secrets.end()), facts.secrets.end());
  return facts;
}

}  // namespace launch
