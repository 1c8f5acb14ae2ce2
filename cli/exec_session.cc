#include "cli/exec_session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <thread>

#include "common/unique_fd.h"

namespace launch {
namespace {

// What a signal handler may touch.
std::atomic<int> wake{-1};
std::atomic<bool> resized{false};
std::atomic<bool> leave{false};

void OnSignal(int signal) {
  const int saved = errno;
  (signal == SIGWINCH ? resized : leave) = true;
  const std::uint64_t one = 1;
  (void)!::write(wake.load(), &one, sizeof one);
  errno = saved;
}

// The terminal gives every key as it is, and is put back whatever happens but SIGKILL.
class RawTerminal {
 public:
  explicit RawTerminal(bool wanted) : raw_(wanted && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!raw_) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    for (const int signal : {SIGWINCH, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      action.sa_handler = OnSignal;
      (void)::sigaction(signal, &action, nullptr);
    }
  }
  ~RawTerminal() {
    if (raw_) (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_{};
  const bool raw_;
};

// Until the command has ended, or the stream.
void SendInput(ExecStream& stream, int woken, const std::atomic<bool>& over) {
  bool open = true;
  while (!over) {
    pollfd waits[] = {{open ? STDIN_FILENO : -1, POLLIN, 0}, {woken, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
    std::uint64_t count = 0;
    (void)!::read(woken, &count, sizeof count);
    if (leave) return stream.Cancel();
    if (resized.exchange(false)) {
      if (const auto size = TerminalSizeOf(STDIN_FILENO); size && !stream.Resize(*size)) return;
    }
    if (over || (waits[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) == 0) continue;
    std::array<char, kExecPiece> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      if (!stream.Write(std::string(bytes.data(), static_cast<std::size_t>(got)))) return;
    } else {
      open = false;
      if (!stream.EndInput()) return;
    }
  }
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {  // somebody else made it non-blocking
      pollfd wait{fd, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
      continue;
    }
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

std::optional<TerminalSize> TerminalSizeOf(int fd) {
  winsize window{};
  if (::isatty(fd) == 0) return std::nullopt;
  TerminalSize size;
  if (::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0) {
    size = {window.ws_row, window.ws_col};
  }
  return size;
}

std::optional<ExecEnd> MoveBytes(ExecStream& stream, bool terminal) {
  const UniqueFd woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  wake = woken.get();
  const RawTerminal raw(terminal);
  std::atomic<bool> over{false};
  std::thread input([&] { SendInput(stream, woken.get(), over); });
  std::optional<ExecEnd> end;
  while (const auto said = stream.Read()) {
    if (const auto* bytes = std::get_if<ExecBytes>(&*said)) {
      // Nobody reads our output any more: as a pipe's writer, the command ends by that.
      if (!WriteAll(bytes->err ? STDERR_FILENO : STDOUT_FILENO, bytes->data)) stream.Cancel();
    } else {
      end = std::get<ExecEnd>(*said);
    }
  }
  over = true;
  const std::uint64_t one = 1;
  (void)!::write(woken.get(), &one, sizeof one);
  input.join();
  wake = -1;
  return end;
}

}  // namespace launch
