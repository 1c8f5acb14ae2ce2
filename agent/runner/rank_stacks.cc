#include "agent/runner/rank_stacks.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>
#include <thread>
#include <vector>

#include "agent/account/acting_as.h"
#include "agent/runner/process.h"
#include "agent/runner/small_files.h"
#include "common/stack_text.h"
#include "common/unique_fd.h"

namespace launch {
extern const std::string_view kRankHookText;
}  // namespace launch

namespace launch::agent {

const std::string_view kRankHookDirectory = "hook";
std::string_view RankHook() { return kRankHookText; }

namespace {

constexpr int kStackSignal = 59;  // rank_hook.py; a real-time signal nobody is known to use
constexpr std::size_t kMostProcesses = 64;
constexpr std::size_t kMostFrames = 64;  // innermost ones tell
constexpr std::size_t kMostKernel = 12;
constexpr std::size_t kMostText = 1 << 20;
constexpr Millis kQuiet{60};  // a file that did not grow for so long has the whole answer
constexpr Millis kAll{10'000};

using Steady = std::chrono::steady_clock;

// Numbers of the calls in which processes hang (asm/unistd.h), the rest stays a number.
struct NamedCall {
  int number;
  const char* name;
};
#if defined(__x86_64__)
constexpr NamedCall kCalls[] = {
    {0, "read"},         {1, "write"},      {7, "poll"},         {17, "pread64"},
    {18, "pwrite64"},    {23, "select"},    {35, "nanosleep"},   {42, "connect"},
    {43, "accept"},      {45, "recvfrom"},  {47, "recvmsg"},     {61, "wait4"},
    {74, "fsync"},       {75, "fdatasync"}, {202, "futex"},      {230, "clock_nanosleep"},
    {232, "epoll_wait"}, {247, "waitid"},   {257, "openat"},     {262, "newfstatat"},
    {270, "pselect6"},   {271, "ppoll"},    {281, "epoll_pwait"}};
#else
constexpr NamedCall kCalls[] = {{22, "epoll_pwait"}, {56, "openat"},     {63, "read"},
                                {64, "write"},       {67, "pread64"},    {68, "pwrite64"},
                                {72, "pselect6"},    {73, "ppoll"},      {79, "newfstatat"},
                                {82, "fsync"},       {83, "fdatasync"},  {95, "waitid"},
                                {98, "futex"},       {101, "nanosleep"}, {115, "clock_nanosleep"},
                                {202, "accept"},     {203, "connect"},   {207, "recvfrom"},
                                {212, "recvmsg"},    {260, "wait4"}};
#endif

std::string FirstWord(const std::string& text) {
  return text.substr(0, text.find_first_of(" \n\t"));
}

std::string FieldOf(const std::string& status, const std::string& name) {
  std::istringstream in(status);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name + ":")) continue;
    const std::size_t from = line.find_first_not_of(" \t", name.size() + 1);
    return from == std::string::npos ? "" : line.substr(from);
  }
  return {};
}

bool HasSignal(const std::string& mask, int signal) {
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return error == std::errc{} && (bits >> (signal - 1) & 1) != 0;
}

// "[<0>] futex_wait+0x1b/0x30" -> "futex_wait".
std::vector<std::string> KernelStack(const std::string& text) {
  std::vector<std::string> functions;
  std::istringstream in(text);
  for (std::string line; functions.size() < kMostKernel && std::getline(in, line);) {
    const std::size_t from = line.find("] ");
    if (from == std::string::npos) continue;
    const std::string function = line.substr(from + 2, line.find('+', from) - from - 2);
    if (!function.empty() && function != "0xffffffffffffffff") functions.push_back(function);
  }
  return functions;
}

std::string CallName(const std::string& text) {
  const std::string word = FirstWord(text);
  if (word.empty() || word == "running" || word == "-1") return {};
  for (const NamedCall& call : kCalls) {
    if (word == std::to_string(call.number)) return call.name;
  }
  return word;
}

std::optional<Rank> RankIn(const std::string& environment) {
  const std::string padded = '\0' + environment;
  const std::size_t at = padded.find(std::string("\0RANK=", 6));
  if (at == std::string::npos) return std::nullopt;
  Rank rank = -1;
  const char* const from = padded.data() + at + 6;
  const auto [end, error] = std::from_chars(from, padded.data() + padded.size(), rank);
  if (error != std::errc{} || rank < 0) return std::nullopt;
  return rank;
}

std::vector<std::int64_t> TreeOf(const std::string& proc_root, std::int64_t root) {
  std::vector<std::int64_t> tree{root};
  for (std::size_t i = 0; i < tree.size() && tree.size() < kMostProcesses; ++i) {
    const std::string id = std::to_string(tree[i]);
    std::istringstream in(ReadText(proc_root + "/" + id + "/task/" + id + "/children"));
    for (std::int64_t child = 0; tree.size() < kMostProcesses && in >> child;) {
      tree.push_back(child);
    }
  }
  return tree;
}

std::uint64_t SizeOf(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

std::string ReadFrom(const std::string& path, std::uint64_t from) {
  // The process's user may have put anything there.
  const auto file = OpenRegular(path, Links::kRefuse);
  return file ? ReadRange(file->get(), from, kMostText) : std::string();
}

// What the process writes when it is sent the signal; nothing: it did not answer.
std::optional<std::string> Ask(std::int64_t pid, const StacksWish& wish, Millis patience) {
  const std::string& file = wish.file;
  const UniqueFd process = OpenPidFd(static_cast<int>(pid));
  if (!process || !HoldsOpen(static_cast<int>(pid), file)) return std::nullopt;
  const std::uint64_t before = SizeOf(file);
  SignalPidFd(process, kStackSignal);
  std::uint64_t size = before;
  const Steady::time_point end = Steady::now() + patience;
  Steady::time_point grew = Steady::now();
  while (Steady::now() < end) {
    std::this_thread::sleep_for(Millis{5});
    const std::uint64_t now = SizeOf(file);
    if (now != size) grew = Steady::now();
    size = now;
    if (size > before && Steady::now() - grew >= kQuiet) break;
  }
  if (size == before) return std::nullopt;
  const ActingAs acting(wish.account);
  return ReadFrom(file, before);
}

void AddFrames(const std::optional<std::string>& text, const char* source, ProcessStack& stack) {
  if (!text) return;
  const std::vector<PythonThread> threads = ParseStacks(*text);
  const PythonThread* main = MainThread(threads);
  if (main == nullptr || main->frames.empty()) return;
  stack.source = source;
  stack.frames = main->frames;
  if (stack.frames.size() > kMostFrames) stack.frames.resize(kMostFrames);
}

bool IsPython(const std::string& name) { return name.starts_with("python"); }

}  // namespace

RankStacks CollectStacks(const StacksWish& wish, const StackTools& tools) {
  RankStacks stacks{.key = wish.key, .rank = wish.rank};
  const Steady::time_point end = Steady::now() + kAll;
  bool silent = false;  // one that does not answer may do so later, into the answer of another
  for (const std::int64_t pid : TreeOf(tools.proc_root, wish.pid)) {
    const std::string at = tools.proc_root + "/" + std::to_string(pid);
    const std::string status = ReadText(at + "/status");
    if (status.empty()) continue;
    ProcessStack stack{.pid = pid};
    stack.name = FieldOf(status, "Name");
    stack.state = FirstWord(FieldOf(status, "State"));
    stack.rank = RankIn(ReadEnvironment(at));
    stack.syscall = CallName(ReadText(at + "/syscall"));
    stack.kernel = KernelStack(ReadText(at + "/stack"));
    if (stack.kernel.empty()) {
      const std::string wchan = FirstWord(ReadText(at + "/wchan"));
      if (!wchan.empty() && wchan != "0") stack.kernel.push_back(wchan);
    }
    const bool answers = stack.state != "D" && stack.state != "T" && stack.state != "Z" &&
                         HasSignal(FieldOf(status, "SigCgt"), kStackSignal) &&
                         !HasSignal(FieldOf(status, "SigBlk"), kStackSignal);
    const bool may_ask = Steady::now() < end &&
                         (!wish.account || IsOfUser(static_cast<int>(pid), wish.account->uid));
    if (answers && may_ask && !silent) {
      const auto text = Ask(pid, wish, tools.answer);
      silent = !text;
      AddFrames(text, "faulthandler", stack);
    }
    if (stack.frames.empty() && may_ask && tools.py_spy && IsPython(stack.name)) {
      AddFrames(tools.py_spy(pid, wish.account), "py-spy", stack);
    }
    stacks.processes.push_back(std::move(stack));
  }
  if (stacks.processes.empty()) stacks.why = "its processes are gone";
  return stacks;
}

}  // namespace launch::agent
