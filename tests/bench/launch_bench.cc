// Latency of a start (P1), a submit (P6) and an exit (P8) of a running cluster, interleaved with
// what the machine itself can do. Prints one JSON object; tests/bench/run makes the table.
//   launch-bench ADDRESS CREDENTIALS STAMP_PROGRAM WORK_DIRECTORY ROUNDS
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/client.h"
#include "cli/job_reader.h"
#include "common/pki.h"
#include "common/unique_fd.h"
#include "tests/bench/yardsticks.h"

namespace launch::bench {
namespace {

struct Stamp {
  std::int64_t ns = 0;
  int pid = 0;
};

struct Bench {
  Client client;
  std::string program;
  std::string work;
  std::map<std::string, std::vector<double>> ms;

  void Note(const std::string& name, std::int64_t ns) {
    ms[name].push_back(static_cast<double>(ns) / 1e6);
  }
};

// The stamp appears by rename; inotify wakes us, so waiting costs the rank nothing.
Result<Stamp> WaitForStamp(const std::string& directory, const std::string& file) {
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(watch.get(), directory.c_str(), IN_MOVED_TO);
  const std::int64_t deadline = MonotonicNs() + 30'000'000'000;
  while (MonotonicNs() < deadline) {
    Stamp stamp;
    std::ifstream(directory + "/" + file) >> stamp.ns >> stamp.pid;
    if (stamp.pid != 0) return stamp;
    pollfd wait{watch.get(), POLLIN, 0};
    ::poll(&wait, 1, 1000);
    char buffer[4096];
    while (::read(watch.get(), buffer, sizeof buffer) > 0) {
    }
  }
  return Fail(ErrorCode::kDeadlineExceeded, "no stamp of a rank in " + directory);
}

Result<SubmitCall> MakeCall(const Bench& bench, const std::string& stamp, bool stay) {
  const std::string text =
      "name: bench\ndevice: cpu\ngpus: 0\npreflight: {level: none}\nstop_duration: 1s\nrun: " +
      bench.program + " " + bench.work + "/" + stamp + (stay ? " stay\n" : "\n");
  LAUNCH_ASSIGN_OR_RETURN(ReadJob job, ReadJobText(text, "bench.yaml", bench.work));
  SubmitCall call;
  call.idempotency_key = RandomHex(16);
  call.spec = job.spec;
  call.source = job.source;
  call.context.submit_dir = bench.work;
  call.context.user = "bench";
  return call;
}

Result<void> WaitForEnd(Bench& bench, JobId job) {
  return bench.client.Watch(WatchCall{0, {job}, true}, Millis{30'000},
                            [](const EventView& event) { return event.kind != "job.done"; });
}

// One start: submit until durable, submit until the rank's first instruction, and the yardsticks.
Result<void> MeasureStart(Bench& bench, int round, BareRpc& rpc, int sync_fd) {
  const std::string stamp = "start-" + std::to_string(round);
  LAUNCH_ASSIGN_OR_RETURN(const SubmitCall call, MakeCall(bench, stamp, false));
  const std::int64_t begin = MonotonicNs();
  LAUNCH_ASSIGN_OR_RETURN(const SubmitAnswer answer, bench.client.Submit(call));
  bench.Note("submit", MonotonicNs() - begin);
  LAUNCH_ASSIGN_OR_RETURN(const Stamp seen, WaitForStamp(bench.work, stamp));
  bench.Note("start", seen.ns - begin);
  LAUNCH_RETURN_IF_ERROR(WaitForEnd(bench, answer.job));
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t spawn,
                          SpawnNs(bench.program, bench.work + "/spawn-" + std::to_string(round)));
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t call_ns, rpc.CallNs(call.source.size() + 512));
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t sync, SyncNs(sync_fd));
  bench.Note("spawn", spawn);
  bench.Note("rpc", call_ns);
  bench.Note("sync", sync);
  return {};
}

// One exit: SIGKILL of a running rank until the controller's event about it is here.
Result<void> MeasureExit(Bench& bench, int round) {
  const std::string stamp = "exit-" + std::to_string(round);
  LAUNCH_ASSIGN_OR_RETURN(const SubmitCall call, MakeCall(bench, stamp, true));
  LAUNCH_ASSIGN_OR_RETURN(const SubmitAnswer answer, bench.client.Submit(call));
  LAUNCH_ASSIGN_OR_RETURN(const Stamp seen, WaitForStamp(bench.work, stamp));
  std::int64_t killed = 0;
  std::thread killer;
  const auto watched = bench.client.Watch(WatchCall{0, {answer.job}, true}, Millis{30'000},
                                          [&](const EventView& event) {
                                            if (event.kind == "attempt.running") {
                                              killer = std::thread([&] {
                                                const timespec settle{0, 20'000'000};
                                                ::nanosleep(&settle, nullptr);
                                                killed = MonotonicNs();
                                                ::kill(seen.pid, SIGKILL);
                                              });
                                            }
                                            if (event.kind != "rank.exited") return true;
                                            const std::int64_t now = MonotonicNs();
                                            if (killer.joinable()) killer.join();
                                            bench.Note("exit", now - killed);
                                            return false;
                                          });
  if (killer.joinable()) killer.join();
  LAUNCH_RETURN_IF_ERROR(watched);
  return WaitForEnd(bench, answer.job);
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

Result<void> Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) {
    return Fail(ErrorCode::kInvalidArgument,
                "usage: launch-bench ADDRESS CREDENTIALS STAMP_PROGRAM WORK_DIRECTORY ROUNDS");
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(Cluster{arguments[0], arguments[1], false}));
  Bench bench{std::move(client), arguments[2], arguments[3], {}};
  LAUNCH_ASSIGN_OR_RETURN(BareRpc rpc, BareRpc::Make());
  const UniqueFd log(
      ::open((bench.work + "/sync").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const int rounds = std::stoi(arguments[4]);
  for (int round = 0; round < rounds; ++round) {
    LAUNCH_RETURN_IF_ERROR(MeasureStart(bench, round, rpc, log.get()));
    if (round % 2 == 0) LAUNCH_RETURN_IF_ERROR(MeasureExit(bench, round));
  }
  std::printf("{");
  const char* comma = "";
  for (const auto& [name, values] : bench.ms) {
    std::printf("%s\"%s\": {\"n\": %zu, \"p50\": %.3f, \"p99\": %.3f}", comma, name.c_str(),
                values.size(), Quantile(values, 0.5), Quantile(values, 0.99));
    comma = ", ";
  }
  std::printf("}\n");
  return {};
}

}  // namespace
}  // namespace launch::bench

int main(int argc, char** argv) {
  const auto done = launch::bench::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (!done) std::fprintf(stderr, "%s\n", launch::FormatError(done.error()).c_str());
  return done ? 0 : 1;
}
