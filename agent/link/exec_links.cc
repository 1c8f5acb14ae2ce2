#include "agent/link/exec_links.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/link/channel.h"
#include "common/quoted.h"
#include "proto/convert_exec.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {
namespace {

using Stream = grpc::ClientReaderWriter<v1::ExecUp, v1::ExecInput>;

constexpr std::chrono::seconds kRefuseWithin{10};  // the controller waits no longer
constexpr int kGoneGraceMs = 2'000;  // of a command whose user is gone, between TERM and KILL
constexpr int kNotStarted = 126;     // as shells count what could not be executed
constexpr int kNotFound = 127;

void Raise(const UniqueFd& event) {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

bool Send(Stream& stream, const ExecEnd& end) {
  v1::ExecUp message;
  *message.mutable_output()->mutable_end() = ToProto(end);
  return stream.Write(message);
}

// Takes what the user sends, until the stream ends. Made before the command is: what cannot be told
// anything is not begun.
class InputThread {
 public:
  explicit InputThread(Stream& stream)
      : stream_(stream),
        gone_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        over_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        begun_(begin_.get_future()),
        thread_([this] { Run(); }) {}
  ~InputThread() {
    if (!process_) begin_.set_value(nullptr);
    Raise(over_);
    thread_.join();
  }
  // Once; for `process`, which outlives this.
  void Begin(ExecProcess& process) {
    process_ = &process;
    begin_.set_value(&process);
  }
  // Readable once the user is gone, or the connection.
  int gone() const { return gone_.get(); }
  // The command has ended: nothing is written to it any more.
  void Over() { Raise(over_); }

 private:
  void Run() {
    ExecProcess* const process = begun_.get();
    if (process == nullptr) return;
    v1::ExecInput message;
    while (stream_.Read(&message)) Take(message, *process);
    Raise(gone_);
  }
  void Take(const v1::ExecInput& message, ExecProcess& process) {
    if (message.has_data()) {
      Write(message.data(), process);
    } else if (message.has_end()) {
      closed_ = true;
      process.CloseIn();
    } else if (message.has_size()) {
      if (const auto size = FromProto(message.size())) process.Resize(*size);
    }
  }
  // What the command does not take, because it closed its input or ended, is dropped.
  void Write(const std::string& data, const ExecProcess& process) {
    for (std::size_t at = 0; at < data.size() && !closed_;) {
      pollfd waits[] = {{process.in(), POLLOUT, 0}, {over_.get(), POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
      if ((waits[1].revents & POLLIN) != 0) return;
      const ssize_t wrote = ::write(process.in(), data.data() + at, data.size() - at);
      if (wrote > 0) at += static_cast<std::size_t>(wrote);
      if (wrote < 0 && errno != EAGAIN && errno != EINTR) return;
    }
  }

  Stream& stream_;
  ExecProcess* process_ = nullptr;  // of who made this; the thread has what it is given
  bool closed_ = false;
  const UniqueFd gone_;
  const UniqueFd over_;
  std::promise<ExecProcess*> begin_;
  std::future<ExecProcess*> begun_;
  std::thread thread_;
};

// Passes on one piece; false when the stream has failed. `fd` is -1 once it has ended.
bool PassOn(Stream& stream, int& fd, bool is_err) {
  std::array<char, kExecPiece> bytes;
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {  // a terminal says EIO when nobody holds it open any more
    fd = -1;
    return true;
  }
  v1::ExecUp message;
  v1::ExecOutput& output = *message.mutable_output();
  (is_err ? *output.mutable_err() : *output.mutable_out())
      .assign(bytes.data(), static_cast<std::size_t>(got));
  return stream.Write(message);
}

bool Readable(const pollfd& wait) { return (wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0; }

// Until the command has ended and what it wrote is passed on, or the user is gone.
ExecEnd Run(Stream& stream, ExecProcess& process, InputThread& input) {
  input.Begin(process);
  int out = process.out();
  int err = process.err();
  bool gone = false;
  for (;;) {
    pollfd waits[] = {{process.pidfd(), POLLIN, 0},
                      {out, POLLIN, 0},
                      {err, POLLIN, 0},
                      {gone ? -1 : input.gone(), POLLIN, 0}};
    const int ready = ::poll(waits, 4, gone ? kGoneGraceMs : -1);
    if (ready < 0 && errno != EINTR) break;
    if (ready == 0) process.Kill();  // TERM did not do it
    if (Readable(waits[0])) break;
    const bool left = (waits[3].revents & POLLIN) != 0;
    const bool cut = (Readable(waits[1]) && !PassOn(stream, out, false)) ||
                     (Readable(waits[2]) && !PassOn(stream, err, true));
    if ((left || cut) && !gone) {
      gone = true;
      out = err = -1;  // nobody reads it
      process.Signal(SIGHUP);
      process.Signal(SIGTERM);
    }
  }
  ExecEnd end = process.Reap();
  input.Over();
  // What it wrote before; what still holds the pipes open is not waited for.
  for (int* fd : {&out, &err}) {
    while (*fd >= 0 && !gone) {
      pollfd wait{*fd, POLLIN, 0};
      if (::poll(&wait, 1, 0) <= 0 || !Readable(wait)) break;
      gone = !PassOn(stream, *fd, fd == &err);
    }
  }
  if (!gone) {
    (void)Send(stream, end);
    stream.WritesDone();
  }
  return end;
}

// What the user asked for; absent when the stream ended first.
Result<std::optional<ExecCommand>> ReadCommand(Stream& stream) {
  v1::ExecInput first;
  if (!stream.Read(&first)) return std::optional<ExecCommand>();
  if (!first.has_command()) {
    return Fail(ErrorCode::kInvalidArgument, "the first message is no command");
  }
  LAUNCH_ASSIGN_OR_RETURN(ExecCommand command, FromProto(first.command()));
  return std::optional(std::move(command));
}

Result<ExecProcess> Begin(const ExecWish& wish, const ExecCommand& command) {
  if (!wish.copy) return ExecProcess::Start(wish.place, command);
  if (command.archive) return ReadCopy(*wish.copy, *command.archive);
  return Fail(ErrorCode::kInvalidArgument, "of an attempt that is over only files are read");
}

void Refuse(Stream& stream, const Error& why) {
  ExecEnd end{.code = why.code == ErrorCode::kNotFound ? kNotFound : kNotStarted};
  end.why = why.hint.empty() ? why.message : why.message + " (" + why.hint + ")";
  (void)Send(stream, end);
  stream.WritesDone();
}

// `pid` is that of the command's first process while it runs.
void ServeCommand(const ExecWish& wish, const ExecCommand& command, Stream& stream,
                  std::atomic<int>& pid) {
  std::optional<Result<ExecProcess>> process;  // outlives the thread
  InputThread input(stream);
  if (!process.emplace(Begin(wish, command))) return Refuse(stream, process->error());
  pid = (*process)->pid();
  spdlog::info("exec.started key={} rank={} exec={} pid={}", ToString(wish.place.key),
               wish.place.rank, wish.place.id, pid.load());
  const ExecEnd end = Run(stream, **process, input);
  pid = -1;
  spdlog::info("exec.ended exec={} code={}", wish.place.id, end.code);
}

// The limit of processes, which ranks of the same account can reach, must not end the agent.
std::string NoThread(const std::system_error& failure) {
  return "the agent cannot start a thread for it: " + failure.code().message() +
         " (its account or its service is at the limit of processes: look at `ulimit -u` and "
         "TasksMax= there; `launch cancel` ends a job that starts too many)";
}

}  // namespace

struct ExecLinks::One {
  std::thread thread;
  grpc::ClientContext context;
  std::atomic<int> pid{-1};  // of the command's first process
  std::atomic<bool> done{false};
};

ExecLinks::ExecLinks(StartThread start)
    : start_(std::move(start)), refuser_([this] { RunRefuser(); }) {}

ExecLinks::~ExecLinks() {
  CutAll();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  refused_more_.notify_one();
  refuser_.join();
  for (const auto& one : running_) one->thread.join();
}

void ExecLinks::Open(ExecWish wish) {
  const std::lock_guard lock(mutex_);
  JoinFinished();
  if (running_.size() >= kMost && wish.refused.empty()) {
    wish.refused = std::to_string(kMost) + " commands run beside ranks of this node; end one";
  }
  auto one = std::make_unique<One>();
  One& made = *one;
  try {
    made.thread = start_([wish, &made] {
      Serve(wish, made);
      made.done = true;
    });
  } catch (const std::system_error& failure) {
    if (wish.refused.empty()) wish.refused = NoThread(failure);
    spdlog::warn("exec.refused exec={} why={}", wish.place.id, Quoted(wish.refused));
    // Beyond that the controller says that there was no answer.
    if (refused_.size() < kMost) refused_.push_back(std::move(wish));
    refused_more_.notify_one();
    return;
  }
  running_.push_back(std::move(one));
}

void ExecLinks::RunRefuser() {
  for (;;) {
    One one;
    std::unique_lock lock(mutex_);
    refused_more_.wait(lock, [this] { return closing_ || !refused_.empty(); });
    if (closing_) return;
    const ExecWish wish = std::move(refused_.front());
    refused_.pop_front();
    refusing_ = &one;
    lock.unlock();
    one.context.set_deadline(std::chrono::system_clock::now() + kRefuseWithin);
    Serve(wish, one);
    lock.lock();
    refusing_ = nullptr;
  }
}

void ExecLinks::JoinFinished() {
  std::erase_if(running_, [](const std::unique_ptr<One>& one) {
    if (!one->done) return false;
    one->thread.join();
    return true;
  });
}

void ExecLinks::CutAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& one : running_) one->context.TryCancel();
  refused_.clear();
  if (refusing_ != nullptr) refusing_->context.TryCancel();
}

std::vector<int> ExecLinks::Leaders() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> pids;
  for (const auto& one : running_) {
    if (const int pid = one->pid; pid > 0) pids.push_back(pid);
  }
  return pids;
}

void ExecLinks::Serve(const ExecWish& wish, One& one) {
  const auto stub = v1::Node::NewStub(Dial(wish.controller, wish.identity));
  const auto stream = stub->Exec(&one.context);
  v1::ExecUp open;
  open.mutable_open()->set_session(wish.session);
  open.mutable_open()->set_exec(wish.place.id);
  stream->Write(open);
  if (const auto command = ReadCommand(*stream); !command) {
    Refuse(*stream, command.error());
  } else if (*command && !wish.refused.empty()) {
    Refuse(*stream, {ErrorCode::kFailedPrecondition, wish.refused, {}, {}});
  } else if (*command) {
    try {
      ServeCommand(wish, **command, *stream, one.pid);
    } catch (const std::system_error& failure) {
      Refuse(*stream, {ErrorCode::kFailedPrecondition, NoThread(failure), {}, {}});
    }
  }
  v1::ExecInput rest;
  while (stream->Read(&rest)) {
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) {
    spdlog::debug("exec.down exec={} why={}", wish.place.id, Quoted(status.error_message()));
  }
}

}  // namespace launch::agent
