#include "agent/runner/staging.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "agent/account/acting_as.h"
#include "agent/runner/checkpoint_finder.h"
#include "agent/runner/interpreter.h"
#include "agent/runner/local_disk.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/reachability.h"
#include "common/activation.h"
#include "common/foreign_file.h"
#include "common/no_answer.h"
#include "common/pki.h"
#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr Millis kReachDeadline{3000};
// A marker written over NFS may take this long to be seen past the attribute cache.
constexpr int kMarkerTries = 20;
constexpr useconds_t kMarkerWait = 100'000;

PathFact WorkdirFact(const AllocationSpec& spec) {
  PathFact fact{.what = "workdir", .path = spec.workdir};
  struct stat info {};
  if (::stat(spec.workdir.c_str(), &info) != 0) {
    fact.why = errno == ENOENT ? "no such directory" : std::strerror(errno);
  } else if (!S_ISDIR(info.st_mode)) {
    fact.why = "not a directory";
  } else if (::faccessat(AT_FDCWD, spec.workdir.c_str(), X_OK, AT_EACCESS) != 0) {
    fact.why = std::strerror(errno);
  } else {
    fact.ok = true;
    fact.inode = info.st_ino;
  }
  return fact;
}

PathFact CommandFact(const AllocationSpec& spec, const std::string& path) {
  PathFact fact{.what = "command", .path = spec.command_word};
  auto program = FindProgram(spec.command_word, path, spec.workdir);
  fact.ok = program.has_value();
  if (program) {
    fact.path = *program;
  } else {
    fact.why = program.error().message;
  }
  return fact;
}

// A directory or an archive is a program too, as Python sees it.
PathFact ScriptFact(const AllocationSpec& spec) {
  PathFact fact{.what = "script", .path = spec.script};
  fact.ok = ::faccessat(AT_FDCWD, spec.script.c_str(), R_OK, AT_EACCESS) == 0;
  if (!fact.ok) fact.why = errno == ENOENT ? "no such file" : std::strerror(errno);
  return fact;
}

PathFact NamedFact(std::string what, const std::string& path) {
  PathFact fact{.what = std::move(what), .path = path};
  struct stat info {};
  fact.ok = ::stat(path.c_str(), &info) == 0;
  if (fact.ok) {
    fact.inode = info.st_ino;
  } else {
    fact.why = errno == ENOENT ? "no such file or directory" : std::strerror(errno);
  }
  return fact;
}

bool UsesInterpreter(const AllocationSpec& spec) {
  if (!spec.interpreter.empty() || !spec.interpreter_of.empty() || spec.needs_torch_cuda) {
    return true;
  }
  for (const RankSpec& rank : spec.ranks) {
    for (const std::string& argument : rank.argv) {
      if (argument.empty()) return true;
    }
  }
  return false;
}

// What the first line of a script names to run it, where that cannot be run; else empty: an
// environment whose Python was removed or moved. A pipe is not waited for.
std::string LostShebang(const std::string& program) {
  const UniqueFd fd(::open(program.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  char head[256];
  const ssize_t got = fd ? ::read(fd.get(), head, sizeof head) : -1;
  std::string_view line(head, got > 0 ? static_cast<std::size_t>(got) : 0);
  if (!line.starts_with("#!")) return {};
  line = line.substr(2, line.find_first_of("\r\n") - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  std::string named(line.substr(0, line.find_first_of(" \t")));
  if (named.size() + 16 > sizeof head) return {};  // may be cut
  if (!named.starts_with('/') || ::faccessat(AT_FDCWD, named.c_str(), X_OK, AT_EACCESS) == 0)
    return {};
  return named;
}

PathFact InterpreterFact(const AllocationSpec& spec, const std::string& path) {
  PathFact fact{.what = "interpreter", .path = spec.interpreter};
  const auto interpreter = ResolveInterpreter(spec, path);
  if (!interpreter) {
    fact.why = interpreter.error().message;
    return fact;
  }
  fact.path = *interpreter;
  const auto program = FindProgram(*interpreter, path, spec.workdir);
  fact.ok = program.has_value();
  if (!program) {
    fact.why = program.error().message;
  } else if (const std::string lost = LostShebang(*program); !lost.empty()) {
    fact.ok = false;
    fact.why = "its first line names " + lost + ", which cannot be run";
  }
  return fact;
}

// One that hangs may only be slow: then its ranks are. What the node lacked to start it is no fault
// of it either.
void MustRun(const RuntimeFacts& facts, PathFact& interpreter) {
  if (!facts.python.empty() || facts.says.empty()) return;
  if (facts.says.starts_with(kNoAnswer) || facts.says.starts_with(kNotAsked)) return;
  interpreter.ok = false;
  interpreter.why = facts.says;
}

// The content names the attempt, so that a marker left by another one proves nothing.
PathFact WriteMarker(const AllocationSpec& spec, const std::string& marker) {
  PathFact fact{.what = "marker", .path = MarkerPath(spec, marker)};
  // A pipe there without a reader: ENXIO at once.
  const UniqueFd fd(::open(
      fact.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0644));
  const std::string text = ToString(spec.key) + "\n";
  struct stat info {};
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0 || ::fstat(fd.get(), &info) != 0) {
    fact.why = std::string("cannot write: ") + std::strerror(errno);
    return fact;
  }
  fact.ok = true;
  fact.inode = info.st_ino;
  return fact;
}

PathFact ReadMarker(const AllocationSpec& spec, const std::string& marker,
                    const std::atomic<bool>& cancel) {
  PathFact fact{.what = "marker", .path = MarkerPath(spec, marker)};
  const std::string wanted = ToString(spec.key) + "\n";
  for (int i = 0; i < kMarkerTries && !cancel; ++i) {
    if (i > 0) ::usleep(kMarkerWait);
    const auto fd = OpenRegular(fact.path, Links::kRefuse);
    if (!fd) {
      fact.why = fd.error().code == ErrorCode::kNotFound
                     ? "not there: this is not the directory of rank 0's node"
                     : fd.error().message;
      continue;
    }
    if (ReadRange(fd->get(), 0, 64) != wanted) {
      fact.why = "holds another attempt's mark";
      continue;
    }
    struct stat info {};
    (void)::fstat(fd->get(), &info);
    fact.ok = true;
    fact.inode = info.st_ino;
    fact.why.clear();
    return fact;
  }
  return fact;
}

// 0, or the errno of what failed. Directories that are missing are made, and those are taken away
// again: trainers make their own.
int TryToWrite(const std::string& dir) {
  std::vector<std::string> made;
  const auto done = [&](int error_number) {
    for (auto one = made.rbegin(); one != made.rend(); ++one) (void)::rmdir(one->c_str());
    return error_number;
  };
  std::string path;
  for (const std::filesystem::path& part : std::filesystem::path(dir)) {
    path = (std::filesystem::path(path) / part).string();
    if (::mkdir(path.c_str(), 0755) == 0) {
      made.push_back(path);
    } else if (errno != EEXIST && ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_EACCESS) != 0) {
      return done(errno);
    }
  }
  // O_TMPFILE leaves no name, but not every file system has it.
  const std::string mark = dir + "/.launch-check-" + RandomHex(8);
  const UniqueFd file(
      ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const int error_number = file ? 0 : errno;
  if (file) (void)::unlink(mark.c_str());
  return done(error_number);
}

// The other nodes of the job try the same directory at the same time: one may take away what it
// made between two steps of ours.
PathFact CheckpointDirFact(const std::string& dir, const std::atomic<bool>& cancel) {
  PathFact fact{.what = "checkpoint", .path = dir};
  int error_number = TryToWrite(dir);
  for (int i = 1; i < kMarkerTries && error_number == ENOENT && !cancel; ++i) {
    ::usleep(kMarkerWait);
    error_number = TryToWrite(dir);
  }
  fact.ok = error_number == 0;
  if (!fact.ok) fact.why = std::strerror(error_number);
  return fact;
}

// Room on the file system of `path`, or of the nearest directory above it that is there.
std::optional<DiskFact> DiskFactOf(const std::string& what, std::string path) {
  struct statvfs info {};
  while (::statvfs(path.c_str(), &info) != 0) {
    if (errno != ENOENT || path.size() < 2) return std::nullopt;
    path = std::filesystem::path(path).parent_path().string();
  }
  DiskFact fact{.what = what, .path = path};
  fact.total_bytes = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  fact.free_bytes = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (info.f_files > 0) fact.free_inodes = info.f_favail;  // some file systems have no such limit
  if (fact.total_bytes == 0) return std::nullopt;          // and some tell no size
  return fact;
}

std::vector<DiskFact> Disks(const AllocationSpec& spec) {
  std::vector<DiskFact> disks;
  const auto add = [&](const std::string& what, const std::string& path) {
    if (auto fact = DiskFactOf(what, path)) disks.push_back(std::move(*fact));
  };
  add("workdir", spec.workdir);
  if (!spec.checkpoint_dir.empty()) add("checkpoint", spec.checkpoint_dir);
  add("shm", "/dev/shm");
  return disks;
}

// What the command of the first rank finds. Where its activation fails, what the plan says: the
// start itself names the script (diagnosis/signatures_environment.cc).
struct RealEnvironment {
  std::vector<EnvVar> env;
  bool known = true;
};
RealEnvironment EnvironmentOfFirst(const StagingInput& input) {
  if (input.spec.ranks.empty()) return {};
  const RankSpec& rank = input.spec.ranks.front();
  if (!IsActivated(rank) || !input.environment_of) return {rank.env, !IsActivated(rank)};
  const auto found = input.environment_of(rank, input.account);
  return found ? RealEnvironment{*found} : RealEnvironment{rank.env, false};
}

StagingFacts NetworkTested(const StagingInput& input, const std::atomic<bool>& cancel) {
  StagingFacts facts;
  facts.network.emplace();
  AllocationSpec spec = input.spec;
  RealEnvironment real = EnvironmentOfFirst(input);
  const auto interpreter = ResolveInterpreter(spec, ValueOf(real.env, "PATH"));
  if (!spec.ranks.empty()) spec.ranks.front().env = std::move(real.env);
  if (!interpreter || !input.test_network) {
    facts.network->why = interpreter ? "this agent cannot test it" : interpreter.error().message;
    return facts;
  }
  facts.network =
      input.test_network(*interpreter, spec, *input.stage.network_test, input.account, cancel);
  return facts;
}

}  // namespace

StagingFacts RunStaging(const StagingInput& input, const std::atomic<bool>& cancel) {
  const AllocationSpec& spec = input.spec;
  const to_node::Stage& stage = input.stage;
  const ActingAs acting(input.account);
  if (stage.network_test) return NetworkTested(input, cancel);
  StagingFacts facts;
  facts.setup_exit = input.setup_exit;
  facts.setup_tail = input.setup_tail;
  if (input.setup_exit.value_or(0) != 0) return facts;

  const auto find_checkpoints = [&] {
    if (cancel || !stage.find_checkpoint || spec.checkpoint_dir.empty()) return;
    facts.checkpoints = FindCheckpoints({.directory = spec.checkpoint_dir,
                                         .marker = spec.checkpoint_marker,
                                         .format = spec.checkpoint_format,
                                         .world = spec.world_size,
                                         .cancel = &cancel});
    // Inside of an image the path may be another one.
    if (!spec.container && StaysHere(spec.checkpoint_dir)) {
      facts.paths.push_back({.what = kLocalDisk, .path = spec.checkpoint_dir, .ok = true});
    }
  };
  // Also again: a directory may have been replaced meanwhile, and then its `setup` was left out.
  facts.paths.push_back(WorkdirFact(spec));
  if (stage.use_snapshot) facts.paths.back().inode = 0;  // not to be compared with the submitter's
  if (stage.again) {
    find_checkpoints();
    return facts;
  }
  const RealEnvironment real = EnvironmentOfFirst(input);
  const std::vector<EnvVar>& env = real.env;
  const std::string path = ValueOf(env, "PATH");
  const bool workdir_ok = facts.paths.back().ok;
  if (!spec.command_word.empty()) facts.paths.push_back(CommandFact(spec, path));
  if (!spec.script.empty()) facts.paths.push_back(ScriptFact(spec));
  for (const std::string& named : spec.inputs) facts.paths.push_back(NamedFact("input", named));
  for (const std::string& named : spec.arguments) {
    facts.paths.push_back(NamedFact("argument", named));
  }
  // On CPUs the versions matter only between nodes, which is for the full level.
  const bool probe =
      real.known && (spec.preflight == PreflightLevel::kFull ||
                     (spec.needs_torch_cuda && spec.preflight != PreflightLevel::kNone));
  const auto wait_for = [&](const std::string& python) {
    if (input.waits_for) input.waits_for("the answer of the interpreter " + python);
  };
  std::string interpreter;
  if (!spec.container && UsesInterpreter(spec)) {
    facts.paths.push_back(InterpreterFact(spec, path));
    PathFact& found = facts.paths.back();
    const bool named = !spec.interpreter.empty() && spec.preflight != PreflightLevel::kNone;
    if (found.ok && named && !probe && real.known && input.read_runtime && !cancel) {
      wait_for(found.path);
      MustRun(input.read_runtime(found.path, env, input.account, cancel), found);
    }
    if (facts.paths.back().ok) interpreter = facts.paths.back().path;
  }
  if (!stage.marker.empty() && workdir_ok && !cancel) {
    facts.paths.push_back(stage.write_marker ? WriteMarker(spec, stage.marker)
                                             : ReadMarker(spec, stage.marker, cancel));
  }
  if (!cancel && !stage.masters.empty()) {
    facts.reach = ProbeAddresses(stage.masters, stage.master_port, kReachDeadline, cancel);
  }
  find_checkpoints();
  if (!cancel && spec.preflight != PreflightLevel::kNone) {
    facts.disks = Disks(spec);
    // Inside of an image the path may be another one.
    if (!spec.checkpoint_dir.empty() && !spec.container) {
      facts.paths.push_back(CheckpointDirFact(spec.checkpoint_dir, cancel));
    }
  }
  if (!cancel && probe && !interpreter.empty() && input.probe_runtime) {
    wait_for(interpreter);
    facts.runtime = input.probe_runtime(interpreter, env, input.account, cancel);
  }
  const bool in_image = spec.container && input.image && input.probe_image && !spec.gpus.empty();
  if (!cancel && in_image && workdir_ok && spec.preflight != PreflightLevel::kNone) {
    facts.runtime = input.probe_image(*spec.container, *input.image, input.account);
  }
  return facts;
}

bool SeesWorkdir(const AllocationSpec& spec, const std::optional<LocalAccount>& account) {
  const ActingAs acting(account);
  const PathFact fact = WorkdirFact(spec);
  return fact.ok && (spec.workdir_inode == 0 || fact.inode == spec.workdir_inode);
}

std::string MarkerPath(const AllocationSpec& spec, const std::string& marker) {
  return spec.workdir + "/" + marker;
}

void RemoveMarker(const std::string& path, const std::optional<LocalAccount>& account) {
  const ActingAs acting(account);
  (void)::unlink(path.c_str());
}

}  // namespace launch::agent
