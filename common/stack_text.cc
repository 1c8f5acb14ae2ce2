#include "common/stack_text.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostFrames = 128;

int Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::max(value, 0) : 0;
}

// What stands between the first `open` and the last `close`.
std::string_view Between(std::string_view text, char open, char close) {
  const std::size_t from = text.find(open);
  const std::size_t to = text.rfind(close);
  if (from == std::string_view::npos || to == std::string_view::npos || to <= from) return {};
  return text.substr(from + 1, to - from - 1);
}

// `Current thread 0x00007f5c (most recent call first):`, from Python 3.14 on with `[name]`; py-spy:
// `Thread 4711 (idle): "MainThread"`. CPython: Python/traceback.c, py-spy: src/main.rs.
std::optional<PythonThread> ReadThread(std::string_view line) {
  constexpr std::string_view kCurrent = "Current thread ";
  constexpr std::string_view kThread = "Thread ";
  PythonThread thread;
  thread.current = line.starts_with(kCurrent);
  if (!thread.current && !line.starts_with(kThread)) return std::nullopt;
  const std::string_view id = line.substr(thread.current ? kCurrent.size() : kThread.size());
  if (id.empty() || id.front() < '0' || id.front() > '9') return std::nullopt;
  if (line.find("(most recent call first)") != std::string_view::npos) {
    thread.name = Between(line, '[', ']');
    return thread;
  }
  if (thread.current || line.find('(') == std::string_view::npos) return std::nullopt;
  thread.name = Between(line, '"', '"');
  return thread;
}

// `File "train.py", line 31 in step`
std::optional<StackFrame> ReadFaulthandlerFrame(std::string_view line) {
  if (!line.starts_with("File \"")) return std::nullopt;
  const std::size_t end = line.rfind("\", line ");
  if (end == std::string_view::npos || end < 6) return std::nullopt;
  const std::string_view rest = line.substr(end + 8);
  const std::size_t in = rest.find(" in ");
  StackFrame frame;
  frame.file = line.substr(6, end - 6);
  frame.line = Number(rest.substr(0, in));
  if (in != std::string_view::npos) frame.function = rest.substr(in + 4);
  return frame;
}

// `step (train.py:31)`
std::optional<StackFrame> ReadPySpyFrame(std::string_view line) {
  const std::size_t open = line.rfind(" (");
  if (open == std::string_view::npos || open == 0 || !line.ends_with(')')) return std::nullopt;
  const std::string_view place = line.substr(open + 2, line.size() - open - 3);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  StackFrame frame;
  frame.function = line.substr(0, open);
  frame.file = place.substr(0, colon);
  frame.line = Number(place.substr(colon + 1));
  if (frame.line == 0) return std::nullopt;
  return frame;
}

}  // namespace

std::vector<PythonThread> ParseStacks(std::string_view text) {
  std::vector<PythonThread> threads;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (auto thread = ReadThread(line)) {
      if (threads.size() == kMostThreads) break;
      threads.push_back(std::move(*thread));
      continue;
    }
    if (threads.empty() || threads.back().frames.size() == kMostFrames) continue;
    auto frame = ReadFaulthandlerFrame(line);
    if (!frame) frame = ReadPySpyFrame(line);
    if (frame) threads.back().frames.push_back(std::move(*frame));
  }
  return threads;
}

const PythonThread* MainThread(const std::vector<PythonThread>& threads) {
  for (const PythonThread& thread : threads) {
    if (thread.name == "MainThread") return &thread;
  }
  for (const PythonThread& thread : threads) {
    if (thread.current) return &thread;
  }
  return threads.empty() ? nullptr : &threads.back();
}

}  // namespace launch
