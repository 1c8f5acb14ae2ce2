#include "diagnosis/rank_end.h"

#include <re2/re2.h>

#include <string>

#include "common/units.h"

namespace launch {
namespace {

constexpr int kLastSignal = 64;

std::optional<int> SignalOfName(std::string_view name) {
  struct Row {
    std::string_view name;
    int number;
  };
  constexpr Row kRows[] = {{"SIGKILL", 9},  {"SIGTERM", 15},    {"SIGSEGV", 11},
                           {"SIGABRT", 6},  {"SIGBUS", 7},      {"SIGHUP", 1},
                           {"SIGINT", 2},   {"SIGFPE", 8},      {"SIGILL", 4},
                           {"SIGUSR1", 10}, {"SIGUSR2", 12},    {"SIGXCPU", 24},
                           {"Killed", 9},   {"Terminated", 15}, {"Segmentation fault", 11},
                           {"Aborted", 6},  {"Bus error", 7},   {"Illegal instruction", 4}};
  for (const Row& row : kRows)
    if (row.name == name) return row.number;
  return std::nullopt;
}

RankEnd OfSignal(int signal) {
  RankEnd end;
  end.signal = signal;
  return end;
}

}  // namespace

RankEnd DecodeExitCode(int code) {
  RankEnd end;
  if (code < 0 && code >= -kLastSignal) return OfSignal(-code);
  if (code > 128 && code <= 128 + 31) return OfSignal(code - 128);
  // Only the signals that end training in practice: 241 could also be somebody's own code.
  for (const int signal : {6, 7, 9, 11, 15})
    if (code == 256 - signal) return OfSignal(signal);
  end.exit_code = code;
  return end;
}

struct RankEndReader::Patterns {
  // torch/distributed/elastic/multiprocessing/errors/__init__.py, _format_failure
  RE2 rank{R"(rank\s*: (\d+) \(local_rank: )"};
  RE2 exit_code{R"(exitcode\s*: (-?\d+))"};
  // multiprocessing/api.py: "failed (exitcode: -9) local_rank: 3 (pid: 1) of binary: python"
  RE2 local_rank{R"(\) local_rank: (\d+))"};
  RE2 signal{
      R"((?:Signal (\d+) \(\w+\) received by PID|[Kk]illed by signal (\d+)|exited on signal (\d+)))"};
  RE2 status{
      R"((?:return code = (-?\d+)|returned non-zero exit status (\d+)|[Ee]xit(?:ed with exit)? code (\d+)))"};
  // torch/multiprocessing/spawn.py
  RE2 spawned_signal{R"([Pp]rocess (\d+) terminated with signal (SIG\w+))"};
  RE2 spawned_code{R"([Pp]rocess (\d+) terminated with exit code (\d+))"};
  // planner/node_launcher.py, of torchrun, accelerate and deepspeed inside a script
  RE2 ours{
      R"(launch: first failing rank of [\w.-]+: (\d+) \(local rank \d+\): (?:signal (\d+)|exit (\d+)))"};
  // Composer's launcher
  RE2 crashed{R"([Rr]ank (\d+)(?: \(PID \d+\))? (?:crashed|exited) with (?:exit )?code (-?\d+))"};
  RE2 died{R"(died with <Signals\.(SIG\w+))"};  // subprocess.CalledProcessError
  RE2 task{
      R"(task (\d+): (Killed|Segmentation fault|Aborted|Terminated|Bus error|Illegal instruction))"};  // srun
  RE2 shell{
      R"((?:^|: (?:line \d+: +\d+ )?)(Killed|Segmentation fault|Aborted|Terminated|Bus error|Illegal instruction)(?: *$| {2,}| \())"};
};

RankEndReader::RankEndReader() : patterns_(std::make_unique<const Patterns>()) {}
RankEndReader::~RankEndReader() = default;

std::optional<RankEnd> RankEndReader::Read(std::string_view text, std::optional<Rank> rank) {
  const re2::StringPiece line(text.data(), text.size());
  const Patterns& p = *patterns_;
  int number = 0;
  int who = -1;
  std::string word;
  if (text.find("Root Cause (first") != std::string_view::npos) {
    in_root_ = true;
    reported_rank_.reset();
    return std::nullopt;
  }
  if (text.find("ChildFailedError") != std::string_view::npos) return RankEnd();
  if (RE2::PartialMatch(line, p.rank, &number)) {
    reported_rank_ = number;
    return std::nullopt;
  }
  if (RE2::PartialMatch(line, p.exit_code, &number)) {
    RankEnd end = DecodeExitCode(number);
    end.rank = reported_rank_ ? reported_rank_ : rank;
    if (!end.rank && RE2::PartialMatch(line, p.local_rank, &who)) end.rank = who;
    end.root = in_root_;
    in_root_ = false;
    return end;
  }
  std::string digits[3];
  if (RE2::PartialMatch(line, p.ours, &who, &digits[0], &digits[1])) {
    const auto code = ParseInt(digits[0] + digits[1]);
    if (!code || *code < 1 || *code > 255) return std::nullopt;
    RankEnd end = DecodeExitCode(static_cast<int>(digits[0].empty() ? *code : -*code));
    end.rank = who;
    end.root = true;
    return end;
  }
  if (RE2::PartialMatch(line, p.signal, &digits[0], &digits[1], &digits[2])) {
    const auto signal = ParseInt(digits[0] + digits[1] + digits[2]);
    if (!signal || *signal < 1 || *signal > kLastSignal) return std::nullopt;
    RankEnd end = OfSignal(static_cast<int>(*signal));
    end.rank = reported_rank_ ? reported_rank_ : rank;
    return end;
  }
  if (RE2::PartialMatch(line, p.spawned_signal, &who, &word) ||
      RE2::PartialMatch(line, p.died, &word) || RE2::PartialMatch(line, p.task, &who, &word) ||
      RE2::PartialMatch(line, p.shell, &word)) {
    const auto signal = SignalOfName(word);
    if (!signal) return std::nullopt;
    RankEnd end = OfSignal(*signal);
    end.rank = who >= 0 ? std::optional<Rank>(who) : rank;
    return end;
  }
  if (RE2::PartialMatch(line, p.spawned_code, &who, &number) ||
      (RE2::PartialMatch(line, p.crashed, &who, &number) && number != 0)) {
    RankEnd end = DecodeExitCode(number);
    end.rank = who;
    return end;
  }
  if (RE2::PartialMatch(line, p.status, &digits[0], &digits[1], &digits[2])) {
    const auto code = ParseInt(digits[0] + digits[1] + digits[2]);
    if (!code || *code == 0 || *code < -kLastSignal || *code > 255) return std::nullopt;
    RankEnd end = DecodeExitCode(static_cast<int>(*code));
    end.rank = rank;
    return end;
  }
  return std::nullopt;
}

}  // namespace launch
