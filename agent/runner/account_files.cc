#include "agent/runner/account_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/unique_fd.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPassThrough = 0711;  // for all: names that one knows, no list
constexpr mode_t kGroupPasses = 0710;
constexpr mode_t kGroupLists = 0750;  // Python looks for modules in lists of names
constexpr mode_t kPrivate = 0700;

// Both without following a link in the last place; the directories above are root's.
Result<void> Own(const std::string& path, std::uint32_t uid, std::uint32_t gid, mode_t mode) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return FailErrno("open " + path, errno);
  if (::fchown(fd.get(), uid, gid) != 0) return FailErrno("chown " + path, errno);
  if (::fchmod(fd.get(), mode) != 0) return FailErrno("chmod " + path, errno);
  return {};
}

Result<void> MakeOwned(const std::string& path, std::uint32_t uid, std::uint32_t gid, mode_t mode) {
  if (::mkdir(path.c_str(), kPrivate) != 0 && errno != EEXIST)
    return FailErrno("mkdir " + path, errno);
  return Own(path, uid, gid, mode);
}

Result<std::vector<fs::directory_entry>> EntriesOf(const std::string& path) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    entries.push_back(*at);
  if (error) return FailErrno("list " + path, error.value());
  return entries;
}

// At the start of a text, and behind what separates paths.
std::string WithHome(const std::string& text, const std::string& home) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool tilde = text[i] == '~' && (i + 1 == text.size() || text[i + 1] == '/' ||
                                          text[i + 1] == ':' || text[i + 1] == ',');
    const bool begins = i == 0 || text[i - 1] == ':' || text[i - 1] == '=' || text[i - 1] == ',' ||
                        text.substr(0, i).ends_with("://");
    if (tilde && begins) {
      result += home;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

Result<void> OpenStateDir(FileSystem& files, const std::string& state_dir) {
  for (fs::path above = fs::path(state_dir).parent_path();; above = above.parent_path()) {
    struct stat info {};
    if (::stat(above.c_str(), &info) != 0) return FailErrno("stat " + above.string(), errno);
    if ((info.st_mode & S_IXOTH) == 0)
      return Fail(ErrorCode::kFailedPrecondition,
                  "ranks of other accounts cannot reach " + state_dir + ": " + above.string() +
                      " lets nobody pass",
                  "chmod o+x " + above.string() + ", or another state_dir in agent.yaml");
    if (above == above.root_path()) break;
  }
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(state_dir));
  LAUNCH_RETURN_IF_ERROR(Own(state_dir, 0, 0, kPassThrough));
  for (const char* shared : {"/allocations", "/work", "/images"})
    LAUNCH_RETURN_IF_ERROR(MakeOwned(state_dir + shared, 0, 0, kPassThrough));
  for (const char* ours : {"/chunks", "/logs"})
    LAUNCH_RETURN_IF_ERROR(MakeOwned(state_dir + ours, 0, 0, kPrivate));
  return {};
}

Result<void> OpenAttempt(const AttemptDir& dir, const std::vector<Rank>& ranks,
                         const LocalAccount& account) {
  LAUNCH_RETURN_IF_ERROR(Own(dir.path(), 0, account.gid, kGroupPasses));
  LAUNCH_RETURN_IF_ERROR(Own(dir.HookPath(), 0, account.gid, kGroupLists));
  LAUNCH_RETURN_IF_ERROR(Own(dir.FilesPath(), 0, account.gid, kGroupLists));
  for (const std::string& inside : {dir.HookPath(), dir.FilesPath()}) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, EntriesOf(inside));
    for (const fs::directory_entry& entry : entries) {
      if (::lchown(entry.path().c_str(), account.uid, account.gid) != 0)
        return FailErrno("chown " + entry.path().string(), errno);
    }
  }
  for (const Rank rank : ranks) {
    LAUNCH_RETURN_IF_ERROR(Own(dir.RankPath(rank), 0, account.gid, kGroupPasses));
    LAUNCH_RETURN_IF_ERROR(MakeOwned(dir.MadeOwnPath(rank), account.uid, account.gid, kPrivate));
  }
  return {};
}

Result<void> OpenSetup(const AttemptDir& dir, const LocalAccount& account) {
  return Own(dir.RankPath(-1), 0, account.gid, kGroupPasses);
}

std::string ImagesDir(const std::string& attempt_dir, const LocalAccount& account) {
  return fs::path(attempt_dir).parent_path().parent_path().string() + "/images/" +
         std::to_string(account.uid);
}

Result<std::string> MakeImagesDir(const AttemptDir& dir, const LocalAccount& account) {
  const std::string path = ImagesDir(dir.path(), account);
  // Also for what was accepted before an agent of one account took over.
  LAUNCH_RETURN_IF_ERROR(MakeOwned(fs::path(path).parent_path().string(), 0, 0, kPassThrough));
  LAUNCH_RETURN_IF_ERROR(MakeOwned(path, account.uid, account.gid, kPrivate));
  return path;
}

Result<void> MakeContainerLock(const AttemptDir& dir, const LocalAccount& account) {
  const std::string path = dir.ContainerLockPath();
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || ::fchown(fd.get(), account.uid, account.gid) != 0)
    return FailErrno("create " + path, errno);
  return {};
}

Result<void> GiveTree(const std::string& path, const LocalAccount& account) {
  const UniqueFd top(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!top) return FailErrno("open " + path, errno);
  std::vector<std::string> below = {"."};  // one descriptor, however deep it is
  while (!below.empty()) {
    const std::string within = std::move(below.back());
    below.pop_back();
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries,
                            EntriesOf(path + "/" + within));
    for (const fs::directory_entry& entry : entries) {
      const std::string name = within + "/" + entry.path().filename().string();
      if (::fchownat(top.get(), name.c_str(), account.uid, account.gid, AT_SYMLINK_NOFOLLOW) != 0)
        return FailErrno("chown " + path + "/" + name, errno);
      std::error_code ignored;
      if (entry.symlink_status(ignored).type() == fs::file_type::directory) below.push_back(name);
    }
  }
  // The way in comes last: until then nobody else could change what was walked.
  if (::fchown(top.get(), account.uid, account.gid) != 0) return FailErrno("chown " + path, errno);
  return {};
}

AllocationSpec AtHome(AllocationSpec spec, const LocalAccount& account) {
  const auto expand = [&](std::string& text) { text = WithHome(text, account.home); };
  for (RankSpec& rank : spec.ranks) {
    for (EnvVar& variable : rank.env) {
      expand(variable.value);
      const bool names = variable.name == "USER" || variable.name == "LOGNAME";
      if (names && variable.value == spec.user) variable.value = account.name;
    }
  }
  for (std::string* text : {&spec.interpreter, &spec.interpreter_of, &spec.command_word,
                            &spec.script, &spec.checkpoint_dir}) {
    expand(*text);
  }
  if (spec.container) {
    for (Mount& mount : spec.container->mounts) expand(mount.source);
  }
  return spec;
}

}  // namespace launch::agent
