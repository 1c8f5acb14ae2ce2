#include "cli/snapshot/quiet_git.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/units.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr int kNoSuchProgram = 127;  // of env(1) and of shells

constexpr std::string_view kOwnName = "launch-git-";

// What changes how files are compared and names are written, and names no program. Git prints
// section and key in small letters.
constexpr std::array<std::string_view, 7> kPlainKeys = {
    "autocrlf", "eol", "filemode", "ignorecase", "precomposeunicode", "quotepath", "symlinks"};

std::string Variable(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::move(otherwise) : std::string(value);
}

fs::path UsualExcludesFile() {
  const std::string home = Variable("HOME", "/nonexistent");
  return fs::path(Variable("XDG_CONFIG_HOME", home + "/.config")) / "git/ignore";
}

// A value as git's configuration files quote it.
std::string ConfigValue(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

Unexpected CannotWrite(const fs::path& path, const std::string& reason) {
  return Fail(ErrorCode::kIo, "cannot write " + path.string() + ": " + reason);
}

Result<void> WriteText(const fs::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return {};
  return CannotWrite(path, "no space, or not writable");
}

// What programs that were killed left; the process in the name is gone, and not just in another
// namespace of processes.
void Sweep(const fs::path& all) {
  constexpr auto kSurely = std::chrono::minutes(30);
  std::error_code error;
  for (fs::directory_iterator at(all, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(kOwnName)) continue;
    std::error_code ignored;
    const auto age = fs::file_time_type::clock::now() - at->last_write_time(ignored);
    const auto pid = ParseInt(name.substr(kOwnName.size(), name.rfind('-') - kOwnName.size()));
    const bool gone = !pid || (::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH);
    if (!ignored && gone && age > kSurely) fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

Result<QuietGit> QuietGit::Open(const GitRepository& repository, Millis deadline) {
  std::error_code error;
  const fs::path all = fs::temp_directory_path(error);
  if (!error) Sweep(all);
  std::string name =
      (all / (std::string(kOwnName) + std::to_string(::getpid()) + "-XXXXXX")).string();
  const std::shared_ptr<SignalHold> hold = SignalHold::Begin();
  if (error || ::mkdtemp(name.data()) == nullptr) {
    return FailErrno("make a directory " + name, error ? error.value() : errno);
  }
  QuietGit git;
  git.hold_ = hold;
  git.own_ = name;
  LAUNCH_RETURN_IF_ERROR(git.Prepare(repository, deadline));
  return git;
}

QuietGit::QuietGit(QuietGit&& other) noexcept
    : hold_(std::move(other.hold_)),
      own_(std::exchange(other.own_, {})),
      root_(std::move(other.root_)),
      objects_(std::move(other.objects_)),
      excludes_file_(std::move(other.excludes_file_)) {}

QuietGit::~QuietGit() {
  std::error_code ignored;
  if (!own_.empty()) fs::remove_all(own_, ignored);
}

Result<void> QuietGit::Prepare(const GitRepository& repository, Millis deadline) {
  root_ = repository.root;
  objects_ = repository.common / "objects";
  std::error_code error;
  for (const char* name : {"refs", "objects", "info"}) {
    fs::create_directory(own_ / name, error);
    if (error) return CannotWrite(own_ / name, error.message());
  }
  fs::create_symlink(repository.common / "info/exclude", own_ / "info/exclude", error);
  LAUNCH_RETURN_IF_ERROR(
      WriteText(own_ / "HEAD",
                (repository.commit.empty() ? "ref: refs/heads/none" : repository.commit) + "\n"));
  LAUNCH_ASSIGN_OR_RETURN(const std::string config, Configuration(repository, deadline));
  LAUNCH_RETURN_IF_ERROR(WriteText(own_ / "config", config));
  return CopyIndex(repository);
}

// With its time: git compares that of a file to it to know whether a change could be unseen. Read
// before the copy, so that a new index in between looks older than it is, which is the safe side.
Result<void> QuietGit::CopyIndex(const GitRepository& repository) const {
  std::error_code error;
  const fs::path index = repository.own / "index";
  if (!fs::exists(index, error)) return {};
  const fs::file_time_type time = fs::last_write_time(index, error);
  if (!error) fs::copy_file(index, own_ / "index", error);
  if (!error) fs::last_write_time(own_ / "index", time, error);
  if (error) {
    return Fail(ErrorCode::kIo, "cannot copy " + index.string() + ": " + error.message());
  }
  for (fs::directory_iterator at(repository.own, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();  // the larger part of a split index
    if (name.starts_with("sharedindex.")) fs::create_symlink(at->path(), own_ / name, error);
  }
  return WriteText(own_ / "index.lock", "");  // so that git does not write a refreshed one
}

Result<std::string> QuietGit::Configuration(const GitRepository& repository, Millis deadline) {
  excludes_file_ = UsualExcludesFile();
  std::string core = "[core]\n\tbare = false\n";
  std::string extensions;
  const auto ask = [&](std::vector<std::string> what) {
    std::vector<std::string> argv = {"/usr/bin/env", "git", "--git-dir=" + repository.own.string(),
                                     "config", "-z"};
    argv.insert(argv.end(), what.begin(), what.end());
    return RunToEnd(argv, "", deadline);
  };
  const auto asked =
      ask({"--get-regexp",
           "^(core\\.(autocrlf|eol|excludesfile|filemode|ignorecase|precomposeunicode|quotepath|"
           "symlinks)|extensions\\.objectformat)$"});
  if (!asked && asked.error().code == ErrorCode::kDeadlineExceeded) {
    return Fail(ErrorCode::kDeadlineExceeded, "git took too long");
  }
  std::string_view rest = asked && asked->code == 0 ? std::string_view(asked->output) : "";
  while (!rest.empty()) {  // KEY \n VALUE \0, the one that wins last; KEY \0 alone means true
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t end = entry.find('\n');
    const bool has_value = end != std::string_view::npos;
    const std::string_view name = entry.substr(0, end);
    const std::string_view key = name.substr(name.find('.') + 1);
    const std::string line =
        "\t" + std::string(key) +
        (has_value ? " = " + ConfigValue(entry.substr(end + 1)) : std::string()) + "\n";
    if (name == "core.excludesfile") {
      // Again as a path, with `~` and `%(prefix)`; git refuses one without a value.
      const auto path = ask({"--path", "--get", "core.excludesfile"});
      if (path && path->code == 0) excludes_file_ = path->output.substr(0, path->output.find('\0'));
    } else if (name == "extensions.objectformat") {
      extensions = "[extensions]\n" + line;
    } else if (std::ranges::find(kPlainKeys, key) != kPlainKeys.end()) {
      core += line;
    }
  }
  core +=
      extensions.empty() ? "\trepositoryformatversion = 0\n" : "\trepositoryformatversion = 1\n";
  core += "\texcludesfile = " + ConfigValue(excludes_file_.string()) + "\n";
  return core + extensions;
}

std::vector<std::string> QuietGit::Environment() const {
  const std::string own = own_.string();
  std::vector<std::string> words = {"/usr/bin/env",
                                    "-i",
                                    "PATH=" + Variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                                    "HOME=" + own,
                                    "LC_ALL=C",
                                    "GIT_DIR=" + own,
                                    "GIT_WORK_TREE=" + root_.string(),
                                    "GIT_OBJECT_DIRECTORY=" + objects_.string(),
                                    "GIT_CONFIG_NOSYSTEM=1",
                                    "GIT_CONFIG_GLOBAL=/dev/null",
                                    "GIT_ATTR_NOSYSTEM=1",
                                    "GIT_OPTIONAL_LOCKS=0",
                                    "GIT_TERMINAL_PROMPT=0",
                                    "GIT_ALLOW_PROTOCOL=none"};
  // How the user's git is found and loaded.
  for (const char* name : {"LD_LIBRARY_PATH", "GIT_EXEC_PATH"}) {
    const std::string value = Variable(name, "");
    if (!value.empty()) words.push_back(std::string(name) + "=" + value);
  }
  return words;
}

Result<Finished> QuietGit::Run(const std::string& directory,
                               const std::vector<std::string>& arguments, Millis deadline) const {
  std::vector<std::string> argv = Environment();
  argv.insert(argv.end(), {"git", "-C", directory});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto finished = RunToEnd(argv, "", deadline);
  if (finished && finished->code == kNoSuchProgram) {
    return Fail(ErrorCode::kNotFound, "git is not installed here");
  }
  return finished;
}

Result<std::vector<std::string>> QuietGit::TrackedFiles(const std::string& directory,
                                                        Millis deadline) const {
  // Into a file, for there may be more of them than RunToEnd keeps. The shell becomes git, so that
  // the deadline ends the right one.
  const fs::path list = own_ / "tracked";
  std::vector<std::string> argv = Environment();
  argv.insert(argv.end(), {"/bin/sh", "-c", "exec git -C \"$1\" ls-files -z --cached >\"$0\"",
                           list.string(), directory});
  LAUNCH_ASSIGN_OR_RETURN(const Finished finished, RunToEnd(argv, "", deadline));
  if (finished.code == kNoSuchProgram) {
    return Fail(ErrorCode::kNotFound, "git is not installed here");
  }
  if (finished.code != 0) {
    return Fail(ErrorCode::kIo,
                "git says: " + finished.errors.substr(0, finished.errors.find('\n')));
  }
  std::ifstream in(list, std::ios::binary);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, '\0');) names.push_back(name);
  std::ranges::sort(names);
  const auto twice = std::ranges::unique(names);  // an unmerged file has up to three entries
  names.erase(twice.begin(), twice.end());
  return names;
}

}  // namespace launch
