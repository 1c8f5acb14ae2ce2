#include "diagnosis/rank_end.h"

#include <cstdint>
#include <string>

#include "common/units.h"
#include "diagnosis/bounded_pattern.h"

namespace launch {
namespace {

constexpr int kLastSignal = 64;
constexpr std::int64_t kAccessViolation = 0xC0000005;  // of Windows, as Python prints it
constexpr std::int64_t kHighestRank = 1 << 20;

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

struct EndPatterns {
  // torch/distributed/elastic/multiprocessing/errors/__init__.py, _format_failure
  BoundedPattern rank{R"(rank\s*: (\d+) \(local_rank: )"};
  BoundedPattern exit_code{
      R"(exitcode\s*: (-?\d+)|^ *Process finished with exit code (-?[1-9]\d*))"};  // PyCharm's
  // multiprocessing/api.py: "failed (exitcode: -9) local_rank: 3 (pid: 1) of binary: python"
  BoundedPattern local_rank{R"(\) local_rank: (\d+))"};
  BoundedPattern signal{
      R"((?:Signal (\d+) \(\w+\) received by PID|[Kk]illed by signal (\d+)|exited on signal (\d+)))"};
  // AlgorithmError is SageMaker's.
  BoundedPattern status{R"((?:return code = (-?\d+)|returned non-zero exit status (\d+)|)"
                        R"((?:[Ee]xit(?:ed with exit)? code|AlgorithmError: Exit Code:) (\d+)))"};
  // torch/multiprocessing/spawn.py
  BoundedPattern spawned_signal{R"([Pp]rocess (\d+) terminated with signal (SIG\w+))"};
  BoundedPattern spawned_code{R"([Pp]rocess (\d+) terminated with exit code (\d+))"};
  // planner/start/node_launcher.py, of torchrun, accelerate and deepspeed inside a script
  BoundedPattern ours{
      R"(launch: first failing rank of [\w.-]+: (\d+) \(local rank \d+\): (?:signal (\d+)|exit (\d+)))"};
  // Composer's launcher
  BoundedPattern crashed{
      R"([Rr]ank (\d+)(?: \(PID \d+\))? (?:crashed|exited) with (?:exit )?code (-?\d+))"};
  BoundedPattern died{R"(died with <Signals\.(SIG\w+))"};  // subprocess.CalledProcessError
  // srun, of one task or the first of several
  BoundedPattern task{
      R"(tasks? (\d+)[-,\d]*: (Killed|Segmentation fault|Aborted|Terminated|Bus error|Illegal instruction))"};
  BoundedPattern task_code{R"(tasks? (\d+)[-,\d]*: Exited with exit code (\d+))"};
  // Who was the first: Open MPI's and PRRTE's help texts (signal or code may stand on the next
  // line), MPI_Abort, torch.multiprocessing, Lightning.
  BoundedPattern first{
      R"((?:noticed that|exited due to) process rank (\d+) with PID|MPI_ABORT was invoked on rank (\d+)|)"
      R"(application called MPI_Abort\([^)]*\) - process (\d+)|-- Process (\d+) terminated with the following error)"};
  BoundedPattern first_name{
      R"(^ *Process name: (?:\[(?:\[\d+,|prterun-\S+@)1[,\]],?(\d+)\]|(\d+)$))"};
  BoundedPattern on_signal{R"(exited on signal (\d+))"};
  BoundedPattern child{
      R"((?:\[rank: (\d+)\] )?Child process with PID \d+ terminated with code (-?\d+))"};
  // MPICH's and Intel MPI's table of ends
  BoundedPattern hydra_rank{R"(\bRANK (\d+) PID \d+ RUNNING AT )"};
  BoundedPattern hydra_end{
      R"(KILLED BY SIGNAL: (\d+)|EXIT STRING: [\w ]+\(signal (\d+)\)|E(?:XIT CODE|xit code): +(\d+))"};
  // DeepSpeed's and torch.distributed.launch's reports show the command that was started last,
  // whoever failed: it names the rank only where there was but one.
  BoundedPattern only_rank{
      R"('--local[_-]rank=0'.*(?:exits with return code|died with|returned non-zero exit))"};
  BoundedPattern shell{
      R"((?:^|: (?:line \d+: +\d+ )?)(Killed|Segmentation fault|Aborted|Terminated|Bus error|Illegal instruction)(?: *$| {2,}| \())"};
};

const EndPatterns& PatternsOfEnd() {
  static const EndPatterns patterns;
  return patterns;
}

}  // namespace

RankEnd DecodeExitCode(std::int64_t code) {
  RankEnd end;
  // Windows: ntstatus.h, as 32 bits with or without a sign.
  constexpr std::int64_t k32Bits = std::int64_t{1} << 32;
  switch (code < 0 ? code + k32Bits : code) {
    case 0xC0000005:  // access violation
    case 0xC00000FD:  // stack overflow
      return OfSignal(11);
    case 0xC000001D:
      return OfSignal(4);  // illegal instruction
    case 0xC0000409:       // a failed check, as abort() ends
      return OfSignal(6);
    case 0xC000013A:
      return OfSignal(2);  // Control-C
    default:
      break;
  }
  if (code < 0 && code >= -kLastSignal) return OfSignal(static_cast<int>(-code));
  if (code > 128 && code <= 128 + 31) return OfSignal(static_cast<int>(code - 128));
  // Only the signals that end training in practice: 241 could also be somebody's own code.
  for (const int signal : {6, 7, 9, 11, 15})
    if (code == 256 - signal) return OfSignal(signal);
  end.exit_code = static_cast<int>(code);
  return end;
}

// What says by itself, or on the lines behind it, who was the first.
std::optional<RankEnd> RankEndReader::ReadFirst(std::string_view text) {
  const re2::StringPiece line(text.data(), text.size());
  const EndPatterns& p = PatternsOfEnd();
  std::string who[4];
  const bool named = RE2::PartialMatch(line, p.first_name, &who[0], &who[1]);
  if (named || RE2::PartialMatch(line, p.first, &who[0], &who[1], &who[2], &who[3])) {
    const auto rank = ParseInt(who[0] + who[1] + who[2] + who[3]);
    if (!rank || *rank < 0 || *rank > kHighestRank) return std::nullopt;
    std::string signal;
    RankEnd end;
    if (RE2::PartialMatch(line, p.on_signal, &signal)) {
      const auto value = ParseInt(signal);
      if (value && *value >= 1 && *value <= kLastSignal) end = OfSignal(static_cast<int>(*value));
    }
    reported_rank_ = end.rank = static_cast<Rank>(*rank);
    end.root = true;
    return end;
  }
  int rank = 0;
  int code = 0;
  std::string of_child;
  if (RE2::PartialMatch(line, p.child, &of_child, &code) && code != 0) {
    RankEnd end = DecodeExitCode(code);
    const auto child = ParseInt(of_child);
    if (child && *child >= 0 && *child <= kHighestRank) end.rank = static_cast<Rank>(*child);
    end.root = true;
    return end;
  }
  if (RE2::PartialMatch(line, p.hydra_rank, &rank)) {
    reported_rank_ = rank;
    return std::nullopt;
  }
  std::string digits[3];
  if (!RE2::PartialMatch(line, p.hydra_end, &digits[0], &digits[1], &digits[2]))
    return std::nullopt;
  const auto value = ParseInt(digits[0] + digits[1] + digits[2]);
  if (!value || *value < 1 || *value > 255) return std::nullopt;
  RankEnd end = digits[2].empty() ? OfSignal(static_cast<int>(*value)) : DecodeExitCode(*value);
  end.rank = reported_rank_;
  return end;
}

std::optional<RankEnd> RankEndReader::Read(std::string_view text, std::optional<Rank> rank) {
  const re2::StringPiece line(text.data(), text.size());
  const EndPatterns& p = PatternsOfEnd();
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
  std::string codes[2];
  if (RE2::PartialMatch(line, p.exit_code, &codes[0], &codes[1])) {
    const auto code = ParseInt(codes[0] + codes[1]);  // Windows' NTSTATUS has 32 bits
    if (!code) return std::nullopt;
    RankEnd end = DecodeExitCode(*code);
    end.rank = reported_rank_ ? reported_rank_ : rank;
    if (!end.rank && RE2::PartialMatch(line, p.local_rank, &who)) end.rank = who;
    end.root = in_root_;
    in_root_ = false;
    return end;
  }
  if (const auto first = ReadFirst(text)) return first;
  if (!rank && RE2::PartialMatch(line, p.only_rank)) rank = 0;
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
      (RE2::PartialMatch(line, p.task_code, &who, &number) && number != 0) ||
      (RE2::PartialMatch(line, p.crashed, &who, &number) && number != 0)) {
    RankEnd end = DecodeExitCode(number);
    end.rank = who;
    return end;
  }
  if (RE2::PartialMatch(line, p.status, &digits[0], &digits[1], &digits[2])) {
    const auto code = ParseInt(digits[0] + digits[1] + digits[2]);
    RankEnd crashed = OfSignal(11);
    crashed.rank = rank;
    if (code && *code == kAccessViolation) return crashed;
    if (!code || *code == 0 || *code < -kLastSignal || *code > 255) return std::nullopt;
    RankEnd end = DecodeExitCode(static_cast<int>(*code));
    end.rank = rank;
    return end;
  }
  return std::nullopt;
}

}  // namespace launch
