#include "cli/copy_files.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "cli/daemon.h"
#include "proto/convert_exec.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostErrors = 4'000;  // bytes of a command's stderr

// Nothing gets its name before it is whole: unpacked aside, then renamed, or linked into a
// directory. $1: the target, $2: what the archive has. mktemp where the target is, for neither a
// rename nor a link leaves its file system.
constexpr const char* kUnpackThere =
    "if [ -d \"$1\" ]; then in=$1; elif [ -z \"$2\" ]; then\n"
    "  echo \"$1 is not a directory\" >&2; exit 1; else in=$(dirname -- \"$1\"); fi\n"
    "d=$(mktemp -d \"$in/.launch-cp-XXXXXX\") || exit 1\n"
    "trap 'rm -rf -- \"$d\"; exit 1' HUP INT TERM\n"
    "tar -xf - -C \"$d\" && if [ -d \"$1\" ]; then\n"
    "  cp -alf -- \"$d/.\" \"$1/\" 2>/dev/null || cp -af -- \"$d/.\" \"$1/\"\n"
    "else mv -f -T -- \"$d/$2\" \"$1\"; fi; code=$?\n"
    "rm -rf -- \"$d\"; exit $code\n";

struct SplitName {
  std::string directory;
  std::string name;  // "." for all of the directory
};
SplitName SplitPath(const std::string& path) {
  std::string bare = path;  // "ckpt/" is the directory, as for cp
  while (bare.size() > 1 && bare.ends_with('/')) bare.pop_back();
  const fs::path asked = fs::path(bare).lexically_normal();
  const std::string name = asked.filename().string();
  if (name.empty() || name == "." || name == "..") return {asked.string(), "."};
  const std::string directory = asked.parent_path().string();
  return {directory.empty() ? "." : directory, name};
}

Result<std::string> Tar() {
  for (const char* path : {"/usr/bin/tar", "/bin/tar"}) {
    if (::access(path, X_OK) == 0) return std::string(path);
  }
  return Fail(ErrorCode::kNotFound, "there is no tar on this machine", "apt install tar");
}

struct Ran {
  ExecEnd end;
  std::string errors;
};

// Runs `command` beside the rank; `take` gets its output, `give` its input, until it is absent.
Result<Ran> RunThere(Client& client, const ExecCall& call,
                     const std::function<bool(const std::string&)>& take,
                     const std::function<std::optional<std::string>()>& give) {
  Ran ran;
  bool ended = false;
  const Result<void> status = client.Exec(call, [&](ExecStream& stream) {
    std::atomic<bool> over{false};
    std::thread input([&] {
      while (!over) {
        const std::optional<std::string> bytes = give ? give() : std::nullopt;
        if (!bytes) {
          (void)stream.EndInput();
          return;
        }
        if (!stream.Write(*bytes)) return;
      }
    });
    while (const auto said = stream.Read()) {
      if (const auto* end = std::get_if<ExecEnd>(&*said)) {
        ran.end = *end;
        ended = true;
      } else if (const auto& bytes = std::get<ExecBytes>(*said); bytes.err) {
        ran.errors.append(bytes.data, 0, kMostErrors - std::min(kMostErrors, ran.errors.size()));
      } else if (!take(bytes.data)) {
        stream.Cancel();
      }
    }
    over = true;
    input.join();
  });
  if (ended) return ran;
  if (!status) return Unexpected(status.error());
  return Fail(ErrorCode::kUnavailable, "the connection ended before all was copied", "");
}

// GNU tar's exit 1 for files that a running rank wrote to meanwhile: what it read is there.
bool OnlyChanged(const Ran& ran) {
  if (ran.end.code != 1 || ran.errors.empty()) return false;
  std::istringstream lines(ran.errors);
  for (std::string line; std::getline(lines, line);) {
    const bool changed = line.ends_with("file changed as we read it") ||
                         line.ends_with("File removed before we read it") ||
                         line.ends_with("file is unchanged; not dumped");
    if (!changed) return false;
  }
  return true;
}

Result<void> CheckEnd(const Ran& ran, JobId job, const std::string& path) {
  if (ran.end.code == 0 || OnlyChanged(ran)) return {};
  std::string why = ran.end.why.empty() ? ran.errors : ran.end.why;
  while (!why.empty() && why.back() == '\n') why.pop_back();
  return Fail(ErrorCode::kFailedPrecondition,
              "job " + std::to_string(job.value) + ", " + path + ": " +
                  (why.empty() ? "exit " + std::to_string(ran.end.code) : why),
              ran.end.why.empty() ? "relative paths begin where the rank works" : "");
}

// A directory in `parent`, removed with what is in it.
class Aside {
 public:
  static Result<Aside> Make(CopyGuard& guard, const fs::path& parent) {
    std::string name = (parent.empty() ? fs::path(".") : parent) / ".launch-cp-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      return FailErrno("make a directory in " + parent.string(), errno);
    name = fs::absolute(name).string();
    guard.Add(name);
    return Aside(guard, name);
  }
  Aside(Aside&& other) noexcept : guard_(other.guard_), path_(std::exchange(other.path_, {})) {}
  Aside& operator=(Aside&&) = delete;
  ~Aside() {
    std::error_code ignored;
    if (path_.empty()) return;
    fs::remove_all(path_, ignored);
    guard_->Forget(path_);
  }
  const std::string& path() const { return path_; }

 private:
  Aside(CopyGuard& guard, std::string path) : guard_(&guard), path_(std::move(path)) {}
  CopyGuard* guard_;
  std::string path_;
};

// The archive of `path` into the directory `into`.
Result<void> Fetch(Client& client, const JobPlace& place, const std::string& path,
                   const std::string& into) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string tar, Tar());
  const SplitName split = SplitPath(path);
  ExecCall call{.job = place.job, .rank = place.rank, .command = {}};
  call.command.argv = {"env", "LC_ALL=C",      "tar", "-cf",     "-",
                       "-C",  split.directory, "--",  split.name};
  call.command.archive = path;
  // Nothing but what was asked for, owned by who asks: what fills the archive is a job's tar.
  std::vector<std::string> here = {tar, "-xof", "-", "-C", into};
  if (split.name != ".") here.insert(here.end(), {"--", split.name});
  // Begun with the first byte: where there is none, its complaints are not the reason.
  std::optional<Result<PipedProgram>> unpack;
  const auto take = [&](const std::string& bytes) {
    if (!unpack) unpack.emplace(PipedProgram::Start(here, PipedProgram::End::kStdin));
    return unpack->has_value() && (*unpack)->Write(bytes);
  };
  LAUNCH_ASSIGN_OR_RETURN(const Ran ran, RunThere(client, std::move(call), take, {}));
  if (unpack && !*unpack) return Unexpected(unpack->error());
  const int code = unpack ? (*unpack)->Finish() : 0;
  if ((ran.end.code == 0 || OnlyChanged(ran)) && code != 0) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        "tar could not write everything below " + into + " (exit " + std::to_string(code) + ")",
        "is the disk full?");
  }
  return CheckEnd(ran, place.job, path);
}

// `from` becomes `to`; a directory that is there already gets what is in `from`, as with cp -r.
Result<void> MoveInto(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const auto is_directory = [&](const fs::path& path) {
    return fs::symlink_status(path, error).type() == fs::file_type::directory;
  };
  if (!is_directory(from) || !is_directory(to)) {
    fs::rename(from, to, error);
    if (error) return FailErrno("rename to " + to.string(), error.value());
    return {};
  }
  std::vector<fs::path> names;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  if (error) return FailErrno("read " + from.string(), error.value());
  for (const fs::path& name : names) LAUNCH_RETURN_IF_ERROR(MoveInto(from / name, to / name));
  return {};
}

}  // namespace

std::optional<JobPath> ParseJobPath(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string::npos) return std::nullopt;
  const std::string job = text.substr(0, colon);
  const bool names_job =
      std::ranges::all_of(job, [](char c) { return (c >= '0' && c <= '9') || c == '_'; });
  if (!names_job || job.front() == '_') return std::nullopt;
  return JobPath{job, colon + 1 == text.size() ? "." : text.substr(colon + 1)};
}

CopyGuard::CopyGuard() : signals_({SIGINT, SIGTERM, SIGHUP}, [this](int s) { Leave(s); }) {}

void CopyGuard::Add(const std::string& path) {
  const std::lock_guard lock(mutex_);
  aside_.insert(path);
}

void CopyGuard::Forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  aside_.erase(path);
}

void CopyGuard::Leave(int signal) {
  const std::lock_guard lock(mutex_);
  for (const std::string& path : aside_) {
    // tar may still write: what it makes meanwhile goes with the next round.
    std::error_code error;
    for (int round = 0; round < 100 && fs::exists(path, error); ++round)
      fs::remove_all(path, error);
  }
  ::_exit(128 + signal);
}

Result<void> CopyFromJob(Client& client, CopyGuard& guard, const JobPlace& place,
                         const std::string& path, const std::string& to) {
  std::error_code error;
  const bool into = fs::is_directory(to, error);
  const fs::path target = fs::path(to).lexically_normal();
  if (!into && to.ends_with('/')) {
    return Fail(ErrorCode::kNotFound, to + " is not a directory", "mkdir -p " + to);
  }
  LAUNCH_ASSIGN_OR_RETURN(const Aside aside,
                          Aside::Make(guard, into ? target : target.parent_path()));
  LAUNCH_RETURN_IF_ERROR(Fetch(client, place, path, aside.path()));
  const SplitName split = SplitPath(path);
  const fs::path made =
      split.name == "." ? fs::path(aside.path()) : fs::path(aside.path()) / split.name;
  return MoveInto(made, into && split.name != "." ? target / split.name : target);
}

Result<void> CopyToJob(Client& client, JobId job, Rank rank, const std::vector<std::string>& paths,
                       const std::string& to) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string tar, Tar());
  std::vector<std::string> argv = {tar, "-cf", "-"};
  std::string only;  // the archive's one name, where it has one
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) {
      return Fail(ErrorCode::kNotFound, path + " is not there", "");
    }
    const SplitName split = SplitPath(fs::absolute(path).string());
    argv.insert(argv.end(), {"-C", split.directory, "./" + split.name});
    only = paths.size() == 1 && split.name != "." ? split.name : "";
  }
  LAUNCH_ASSIGN_OR_RETURN(PipedProgram pack, PipedProgram::Start(argv, PipedProgram::End::kStdout));
  LAUNCH_ASSIGN_OR_RETURN(
      const Ran ran,
      RunThere(
          client,
          {.job = job,
           .rank = rank,
           .command = {.argv = {"sh", "-c", kUnpackThere, "sh", to, only},
                       .terminal = std::nullopt,
                       .term = {}}},
          [](const std::string&) { return true; }, [&] { return pack.Read(kExecPiece); }));
  LAUNCH_RETURN_IF_ERROR(CheckEnd(ran, job, to));
  const int code = pack.Finish();
  if (code > 1) {  // 1: files that changed meanwhile, which it named
    return Fail(ErrorCode::kFailedPrecondition,
                "tar could not read everything here (exit " + std::to_string(code) + ")", "");
  }
  return {};
}

}  // namespace launch
