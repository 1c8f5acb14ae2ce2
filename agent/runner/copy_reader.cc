#include "agent/runner/copy_reader.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "agent/account/acting_as.h"
#include "agent/account/spawn.h"
#include "agent/runner/workdir_copy.h"
#include "agent/shim/become_account.h"
#include "common/open_beneath.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kReportOfReader = 3;

// What stands behind `above` and its slash; absent: `path` is not below it.
std::optional<std::string> Below(const std::string& path, const std::string& above) {
  if (above.empty() || !path.starts_with(above + "/")) return std::nullopt;
  return path.substr(above.size() + 1);
}

std::string JobWords(const CopyPlace& place) {
  return "job " + std::to_string(place.key.job.value);
}

Unexpected NoCopy(const CopyPlace& place) {
  if (place.copy.used) {
    return Fail(ErrorCode::kNotFound,
                "the copy of workdir that " + JobWords(place) + " ran in is not on " + place.node +
                    " any more",
                "copies are kept for a week after their job");
  }
  return Fail(ErrorCode::kNotFound,
              JobWords(place) + " ran in place: what it wrote is in " + place.copy.workdir +
                  " on " + place.node,
              "copy it from there");
}

Result<UniqueFd> OpenCopy(const CopyPlace& place, const std::string& directory,
                          const std::optional<LocalAccount>& account) {
  UniqueFd copy(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!copy && errno == ENOENT) return NoCopy(place);
  if (!copy || ::fstat(copy.get(), &info) != 0) return FailErrno("open " + directory, errno);
  if (account && info.st_uid != account->uid) {
    return Fail(
        ErrorCode::kPermissionDenied,
        directory + " belongs to uid " + std::to_string(info.st_uid) + ", not to " + account->name,
        "its job ran as another account");
  }
  return copy;
}

// As the account: who may not pass a directory does not get what is behind it.
Result<UniqueFd> EnterDirectory(const CopyPlace& place, const UniqueFd& copy,
                                const PathInCopy& asked,
                                const std::optional<LocalAccount>& account) {
  const ActingAs as(account);
  Result<UniqueFd> directory = OpenBeneath(copy.get(), asked.directory);
  struct stat info {};
  const bool there =
      directory && ::fstatat(directory->get(), asked.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (there) return directory;
  if (directory && errno != ENOENT) return FailErrno("look at " + asked.name, errno);
  if (!directory && directory.error().code != ErrorCode::kNotFound) return directory;
  const std::string path = asked.directory == "." ? asked.name : asked.directory + "/" + asked.name;
  return Fail(ErrorCode::kNotFound, "there is no " + path + " in the copy of workdir that " +
                                        JobWords(place) + " ran in on " + place.node);
}

Result<std::string> FindTar(const CopyPlace& place) {
  for (const char* path : {"/usr/bin/tar", "/bin/tar"}) {
    if (::access(path, X_OK) == 0) return std::string(path);
  }
  return Fail(ErrorCode::kNotFound, "there is no tar on " + place.node, "apt install tar");
}

// What the child needs, ready before the fork: it may not allocate.
struct CopyReaderChild final : Becoming {
  std::vector<char*> argv;
  std::vector<char*> env;
  UniqueFd directory;
  UniqueFd stdio[3];
  std::optional<shim::AccountIds> ids;

  int Prepare(int& report) const override {
    ResetHandlers();
    if (::setsid() < 0) return errno;
    for (int target = 0; target < 3; ++target) {
      if (::dup2(stdio[target].get(), target) < 0) return errno;
    }
    shim::LeaveOomProtection();
    if (ids) {
      if (const int failed = shim::BecomeAccount(*ids); failed != 0) return failed;
    }
    if (::fchdir(directory.get()) != 0) return errno;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    if (::dup3(report, kReportOfReader, O_CLOEXEC) < 0) return errno;
    report = kReportOfReader;
    ::close_range(kReportOfReader + 1, ~0U, 0);
    return 0;
  }
  int Execute() const override {
    ::execve(argv[0], argv.data(), env.data());
    return errno;
  }
};

std::vector<char*> PointersTo(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<PathInCopy> FindInCopy(const std::string& path, const std::string& directory,
                              const std::string& workdir) {
  std::string bare = fs::path(path.empty() ? "." : path).lexically_normal().string();
  while (bare.size() > 1 && bare.ends_with('/')) bare.pop_back();
  if (const auto below = Below(bare, directory)) {
    bare = *below;
  } else if (const auto of_origin = Below(bare, workdir)) {
    bare = *of_origin;
  }
  const fs::path relative(bare);
  if (relative.is_absolute() || *relative.begin() == "..") {
    return Fail(ErrorCode::kPermissionDenied,
                path + " is outside of the directory that the job worked in, " + directory,
                "of a job that ended only what is in there can be copied");
  }
  if (bare == ".") return PathInCopy{".", "."};
  const std::string parent = relative.parent_path().string();
  return PathInCopy{parent.empty() ? "." : parent, relative.filename().string()};
}

Result<ExecProcess> ReadCopy(const CopyPlace& place, const std::string& path) {
  const std::string directory = CopyPath(place.state_dir, place.key.job, place.copy.root);
  LAUNCH_ASSIGN_OR_RETURN(const PathInCopy asked, FindInCopy(path, directory, place.copy.workdir));
  std::optional<LocalAccount> account;
  if (place.account_of) {
    LAUNCH_ASSIGN_OR_RETURN(account, place.account_of(place.copy.user));
  }
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd copy, OpenCopy(place, directory, account));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd entered, EnterDirectory(place, copy, asked, account));
  LAUNCH_ASSIGN_OR_RETURN(const std::string tar, FindTar(place));
  NoteCopyUse(directory);

  std::vector<std::string> argv = {tar, "-cf", "-", "--", asked.name};
  std::vector<std::string> env = {"PATH=/usr/bin:/bin", "LC_ALL=C"};
  ExecProcess process;
  process.place_.key = place.key;
  CopyReaderChild child;
  LAUNCH_RETURN_IF_ERROR(process.MakePipes(child.stdio));
  LAUNCH_ASSIGN_OR_RETURN(child.directory, AboveTargets(entered.get()));
  child.argv = PointersTo(argv);
  child.env = PointersTo(env);
  if (account) child.ids = IdsOf(*account);
  LAUNCH_ASSIGN_OR_RETURN(const int pid, Spawn(child, -1, "cannot start " + tar));
  LAUNCH_RETURN_IF_ERROR(process.Watch(pid));
  return process;
}

}  // namespace launch::agent
