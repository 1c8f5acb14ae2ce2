#include "cli/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "common/first_line.h"

namespace launch {
namespace {

using Steady = std::chrono::steady_clock;

// Start time of a process in ticks since boot; absent when it is gone.
std::optional<std::uint64_t> StartTicks(std::int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');  // the name may hold spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 2));
  std::string word;
  rest >> word;  // field 3, the state
  if (word == "Z" || word == "X") return std::nullopt;
  for (int field = 4; field <= 22; ++field)
    if (!(rest >> word)) return std::nullopt;
  return std::stoull(word);
}

std::optional<DaemonRecord> ReadRecord(const std::string& pid_file) {
  std::ifstream in(pid_file);
  DaemonRecord record;
  if (!(in >> record.pid >> record.start_ticks >> record.boot_id)) return std::nullopt;
  return record;
}

bool Alive(const DaemonRecord& record) {
  return record.boot_id == KernelBootId() && StartTicks(record.pid) == record.start_ticks;
}

// Owns the C structures of one posix_spawn.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t* actions() { return &actions_; }

  // Signals as at login; `session` detaches from the terminal.
  Result<pid_t> Spawn(const std::vector<std::string>& argv, short extra_flags) {
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK |
                                                              POSIX_SPAWN_SETSIGDEF | extra_flags));
    std::vector<char*> words;
    words.reserve(argv.size() + 1);
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_t pid = 0;
    const int error =
        posix_spawn(&pid, argv[0].c_str(), &actions_, &attributes_, words.data(), environ);
    if (error != 0) return FailErrno("start " + argv[0], error);
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

UniqueFd PidFd(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// A socket pair: a write to a program that has ended is an error and no signal.
Result<Pipe> MakePipe() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return FailErrno("socketpair", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// What goes without waiting; closes the pipe when all is gone or nobody reads.
void Write(UniqueFd& pipe, std::string_view& rest) {
  const ssize_t wrote = send(pipe.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (wrote > 0) rest.remove_prefix(static_cast<std::size_t>(wrote));
  if (rest.empty() || (wrote < 0 && errno != EAGAIN && errno != EINTR)) pipe.Reset();
}

// Closes the pipe at its end; what is beyond `most` is read and dropped.
void Take(UniqueFd& pipe, std::string& text, std::size_t most) {
  char buffer[4096];
  const ssize_t got = read(pipe.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) return pipe.Reset();
  text.append(buffer, std::min(static_cast<std::size_t>(got), most - std::min(most, text.size())));
}

bool EndsWithin(int pidfd, Millis limit) {
  pollfd wait{pidfd, POLLIN, 0};
  const auto end = Steady::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<Millis>(end - Steady::now()).count();
    const int ready = poll(&wait, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Result<DaemonRecord> StartDaemon(const std::vector<std::string>& argv, const std::string& log,
                                 const std::string& pid_file) {
  SpawnPlan plan;
  posix_spawn_file_actions_addopen(plan.actions(), 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(plan.actions(), 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(plan.actions(), 1, 2);
  LAUNCH_ASSIGN_OR_RETURN(pid_t pid, plan.Spawn(argv, POSIX_SPAWN_SETSID));
  DaemonRecord record{pid, StartTicks(pid).value_or(0), KernelBootId()};
  const std::string fresh = pid_file + ".new";
  std::ofstream(fresh) << record.pid << " " << record.start_ticks << " " << record.boot_id << "\n";
  std::error_code error;
  std::filesystem::rename(fresh, pid_file, error);
  if (error) return FailErrno("write " + pid_file, error.value());
  return record;
}

std::optional<DaemonRecord> LiveDaemon(const std::string& pid_file) {
  // A child of ours that has ended must not linger as a zombie.
  std::optional<DaemonRecord> record = ReadRecord(pid_file);
  if (!record || !Alive(*record)) return std::nullopt;
  return record;
}

Result<void> StopDaemon(const std::string& pid_file, Millis grace) {
  const std::optional<DaemonRecord> record = ReadRecord(pid_file);
  if (record) {
    const UniqueFd pidfd = PidFd(static_cast<pid_t>(record->pid));
    // The descriptor holds the process; only now is the check worth something.
    if (pidfd.get() >= 0 && Alive(*record)) {
      syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
      if (!EndsWithin(pidfd.get(), grace)) {
        syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
        if (!EndsWithin(pidfd.get(), Millis(5000)))
          return Fail(ErrorCode::kDeadlineExceeded,
                      "process " + std::to_string(record->pid) + " did not end after SIGKILL");
      }
      waitpid(static_cast<pid_t>(record->pid), nullptr, WNOHANG);
    }
  }
  std::error_code ignored;
  std::filesystem::remove(pid_file, ignored);
  return {};
}

Result<Finished> RunToEnd(const std::vector<std::string>& argv, const std::string& input,
                          Millis deadline) {
  LAUNCH_ASSIGN_OR_RETURN(Pipe in, MakePipe());
  LAUNCH_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  LAUNCH_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  SpawnPlan plan;
  posix_spawn_file_actions_adddup2(plan.actions(), in.read.get(), 0);
  posix_spawn_file_actions_adddup2(plan.actions(), out.write.get(), 1);
  posix_spawn_file_actions_adddup2(plan.actions(), err.write.get(), 2);
  LAUNCH_ASSIGN_OR_RETURN(const pid_t pid, plan.Spawn(argv, 0));
  in.read.Reset();
  out.write.Reset();
  err.write.Reset();

  Finished finished;
  std::string_view rest = input;
  if (rest.empty()) in.write.Reset();
  const auto end = Steady::now() + deadline;
  bool killed = false;
  while (out.read || err.read) {
    const auto left = std::chrono::duration_cast<Millis>(end - Steady::now()).count();
    if (left <= 0 && !killed) {
      kill(pid, SIGKILL);  // our own child, not yet waited for: the number is still its own
      killed = true;
    }
    // Descriptors of -1 are passed over.
    std::array<pollfd, 3> wait = {pollfd{in.write.get(), POLLOUT, 0},
                                  pollfd{out.read.get(), POLLIN, 0},
                                  pollfd{err.read.get(), POLLIN, 0}};
    const int ready = poll(wait.data(), wait.size(), killed ? 2000 : static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && killed) break;
    if (ready == 0) continue;
    if (wait[0].revents != 0) Write(in.write, rest);
    if (wait[1].revents != 0) Take(out.read, finished.output, std::size_t{1} << 20);
    if (wait[2].revents != 0) Take(err.read, finished.errors, std::size_t{64} << 10);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (killed)
    return Fail(ErrorCode::kDeadlineExceeded, argv[0] + " did not end in time",
                finished.output + finished.errors);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

Result<PipedProgram> PipedProgram::Start(const std::vector<std::string>& argv, End ours) {
  LAUNCH_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  SpawnPlan plan;
  posix_spawn_file_actions_adddup2(plan.actions(), pipe.read.get(), ours == End::kStdin ? 0 : 1);
  LAUNCH_ASSIGN_OR_RETURN(const pid_t pid, plan.Spawn(argv, 0));
  return PipedProgram(pid, std::move(pipe.write));
}

PipedProgram::~PipedProgram() {
  if (!fd_) return;
  (void)kill(pid_, SIGKILL);  // nobody wants the rest any more, nor its complaint about that
  (void)Finish();
}

bool PipedProgram::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

std::optional<std::string> PipedProgram::Read(std::size_t most) {
  std::string bytes(most, '\0');
  for (;;) {
    const ssize_t got = read(fd_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }
}

int PipedProgram::Finish() {
  if (!fd_) return code_;
  fd_.Reset();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

std::string TailOf(const std::string& path, std::size_t max_bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::size_t>(in.tellg());
  const std::size_t start = size > max_bytes ? size - max_bytes : 0;
  in.seekg(static_cast<std::streamoff>(start));
  std::string text(size - start, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

Result<std::string> ProgramBeside(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return FailErrno("read /proc/self/exe", error.value());
  const std::filesystem::path program = self.parent_path() / name;
  if (access(program.c_str(), X_OK) != 0)
    return Fail(
        ErrorCode::kNotFound, program.string() + " is missing",
        "the three programs launch, launch-controller and launch-agent belong in one directory");
  return program.string();
}

}  // namespace launch
