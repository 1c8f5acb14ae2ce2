#include "cli/progress_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "cli/environment_variable.h"

namespace launch {
namespace {

constexpr Millis kFrame{100};

struct Size {
  int width = 80;
  int height = 24;
};

Size SizeOfStderr() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace

bool ProgressScreen::Possible() {
  const std::string kind = EnvironmentVariable("TERM");
  return ::isatty(STDERR_FILENO) != 0 && !kind.empty() && kind != "dumb";
}

ProgressScreen::ProgressScreen(const std::vector<std::string>& hosts)
    : table_(hosts), thread_([this] { Tick(); }) {}

ProgressScreen::~ProgressScreen() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  const MutexLock lock(mutex_);
  Paint();
}

Millis ProgressScreen::Now() const {
  return std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - began_);
}

void ProgressScreen::Take(const up::Progress& progress) {
  const MutexLock lock(mutex_);
  table_.Take(progress, Now());
}

void ProgressScreen::Aside(const std::function<void()>& talk) {
  {
    const MutexLock lock(mutex_);
    aside_ = true;
    const std::string gone = up::Repaint(painted_, {});
    std::fwrite(gone.data(), 1, gone.size(), stderr);
    std::fflush(stderr);
    painted_ = 0;
  }
  talk();
  const MutexLock lock(mutex_);
  aside_ = false;
}

void ProgressScreen::Paint() {
  const Size size = SizeOfStderr();
  // The last column and the last row stay free: a full line may wrap, a full screen scrolls.
  const auto lines = table_.Lines(size.width - 1, size.height - 1, Now());
  const std::string text = up::Repaint(painted_, lines);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  painted_ = lines.size();
}

void ProgressScreen::Tick() {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (!aside_) Paint();
    changed_.wait_for(lock.native(), kFrame);
  }
}

}  // namespace launch
