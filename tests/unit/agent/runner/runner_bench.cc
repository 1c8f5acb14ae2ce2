#include "tests/unit/agent/runner/runner_bench.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace launch::agent {
namespace {

int bench_count = 0;  // for unique cgroup names within one process

// As the agent does: a supervisor may end between the opening of its fifo and the write.
void TakeBrokenPipesAsErrors() {
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &nothing, nullptr);
}

}  // namespace

void ToldLog::Push(Told told) {
  const std::lock_guard lock(mutex_);
  all_.push_back(std::move(told));
  changed_.notify_all();
}

RunnerBench::RunnerBench() {
  std::string pattern = (std::filesystem::temp_directory_path() / "launch-runner-XXXXXX").string();
  dir_ = ::mkdtemp(pattern.data());
  std::filesystem::create_directories(Path("work"));
  options_.cgroup_name = "test-" + std::to_string(::getpid()) + "-" + std::to_string(++bench_count);
  SetOptions();
}

RunnerBench::RunnerBench(std::string dir, std::string cgroup_name)
    : dir_(std::move(dir)), owner_(false) {
  options_.cgroup_name = std::move(cgroup_name);
  SetOptions();
}

void RunnerBench::SetOptions() {
  TakeBrokenPipesAsErrors();
  options_.state_dir = Path("state");
  options_.lock_dir = Path("locks");
  options_.shim_path = std::string(LAUNCH_BINARY_DIR) + "/bin/launch-shim";
  // A range of its own per test process, so that parallel tests do not meet.
  options_.port_first = 21000 + (::getpid() % 400) * 16;
  options_.port_last = options_.port_first + 15;
  options_.codec.serialize = [this](const AllocationSpec& spec) {
    const std::lock_guard lock(specs_mutex_);
    specs_[ToString(spec.key)] = spec;
    return ToString(spec.key);
  };
  options_.codec.parse = [this](std::string_view bytes) -> Result<AllocationSpec> {
    const std::lock_guard lock(specs_mutex_);
    const auto found = specs_.find(std::string(bytes));
    if (found == specs_.end()) return Fail(ErrorCode::kDataLoss, "no such spec");
    return found->second;
  };
  options_.told = [this](Told told) { told_.Push(std::move(told)); };
  options_.reserve_bytes = std::uint64_t{64} << 10;
  options_.files = &files_;
  options_.clock = &clock_;
}

RunnerBench::~RunnerBench() {
  if (!owner_) return;
  if (!runner_) Open();
  for (const Key& key : accepted_) (void)Stop(key, Millis{0});
  runner_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
  RemoveEmptyRoots(SetUpCgroups({options_.cgroup_name, options_.containment, {}}));
}

RunnerState RunnerBench::Open() {
  runner_ = std::make_unique<PosixRunner>(options_);
  auto state = runner_->Recover();
  if (!state) ADD_FAILURE() << FormatError(state.error());
  return state.value_or(RunnerState{});
}

std::string RunnerBench::RankPath(const Key& key, Rank rank) const {
  return options_.state_dir + "/allocations/" + ToString(key) + "/rank." + std::to_string(rank);
}

std::string RunnerBench::WitnessPath() { return std::string(LAUNCH_BINARY_DIR) + "/bin/witness"; }

AllocationSpec RunnerBench::Spec(const Key& key, int ranks,
                                 std::vector<std::string> arguments) const {
  AllocationSpec spec{.key = key, .node = {"node"}, .job_name = "test", .workdir = Path("work")};
  spec.world_size = ranks;
  for (Rank rank = 0; rank < ranks; ++rank) {
    RankSpec one{.rank = rank, .local_rank = rank};
    one.argv = {WitnessPath()};
    one.argv.insert(one.argv.end(), arguments.begin(), arguments.end());
    one.env = {{"LAUNCH_ATTEMPT", std::to_string(key.attempt.value)},
               {"LAUNCH_JOB_ID", std::to_string(key.job.value)},
               {"LAUNCH_PROGRESS_FILE", ""},
               {"PATH", "/usr/bin:/bin"},
               {"RANK", std::to_string(rank)},
               {"WITNESS_DIR", dir_}};
    spec.ranks.push_back(std::move(one));
  }
  return spec;
}

void RunnerBench::Remember(const AllocationSpec& spec) {
  (void)options_.codec.serialize(spec);
  accepted_.push_back(spec.key);
}

std::optional<told::AcceptDone> RunnerBench::Accept(const AllocationSpec& spec) {
  accepted_.push_back(spec.key);
  runner_->Accept({spec, "digest"});
  return told_.Await<told::AcceptDone>(
      [&](const told::AcceptDone& done) { return done.key == spec.key; });
}

std::optional<told::StartDone> RunnerBench::Start(const Key& key) {
  order::Start order;
  order.go.key = key;
  order.go.master_address = "127.0.0.1";
  order.go.late_env = {{"MASTER_ADDR", "127.0.0.1"}};
  order.secrets = {{"API_TOKEN", "s3cret-canary"}};
  runner_->Start(order);
  return told_.Await<told::StartDone>([&](const told::StartDone& done) { return done.key == key; });
}

std::optional<told::StartDone> RunnerBench::Run(const AllocationSpec& spec) {
  const auto accepted = Accept(spec);
  if (!accepted || !accepted->ports) return std::nullopt;
  return Start(spec.key);
}

std::optional<ExitReport> RunnerBench::AwaitEnd(const Key& key, Rank rank) {
  const auto ended = told_.Await<told::RankEnded>([&](const told::RankEnded& done) {
    return done.report.key == key && done.report.rank == rank;
  });
  if (!ended) return std::nullopt;
  return ended->report;
}

std::optional<told::StopDone> RunnerBench::Stop(const Key& key, Millis grace) {
  runner_->Stop({key, StopCause::kCancelled, grace});
  return told_.Await<told::StopDone>([&](const told::StopDone& done) { return done.key == key; });
}

std::string RunnerBench::ReadFile(const std::string& path) const {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void RunnerBench::Touch(const std::string& name) const { std::ofstream out(Path(name)); }

std::vector<std::string> RunnerBench::Ledger() const {
  std::vector<std::string> lines;
  std::ifstream in(Path("ledger"));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool RunnerBench::AwaitWitnesses(int count) const {
  return Eventually([&] { return CountLedger("start") == count; });
}

int RunnerBench::CountLedger(const std::string& word) const {
  int count = 0;
  for (const std::string& line : Ledger()) count += line.starts_with(word + " ") ? 1 : 0;
  return count;
}

bool RunnerBench::ProcessLives(int pid) const {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const std::size_t after = text.rfind(')');
  if (after == std::string::npos) return false;
  // proc_pid_stat(5): state is the first field behind the name, vsize the 21st. A process leaves
  // its cgroup when the kernel took its memory and files, a moment before it becomes a zombie.
  std::istringstream fields(text.substr(after + 1));
  std::string state;
  std::string vsize;
  fields >> state;
  for (int field = 2; field <= 21; ++field) fields >> vsize;
  return state != "Z" && state != "X" && vsize != "0";
}

bool RunnerBench::Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
    ::usleep(2000);
  }
  return true;
}

}  // namespace launch::agent
