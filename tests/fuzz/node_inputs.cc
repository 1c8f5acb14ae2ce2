// What a node reads: files that a trainer left, what the driver's child answers, what ranks print,
// its own directories after a crash.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "agent/probes/nvml_messages.h"
#include "agent/probes/python_probe.h"
#include "agent/progress/progress_parser.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/checkpoint_files.h"
#include "agent/runner/checkpoint_formats.h"
#include "agent/runner/checkpoint_names.h"
#include "agent/runner/checkpoint_pickle.h"
#include "agent/runner/launcher_processes.h"
#include "agent/runner/record_file.h"
#include "common/flight_record.h"
#include "common/network_answer.h"
#include "common/stack_text.h"
#include "proto/convert_value.h"
#include "tests/fuzz/targets.h"

namespace launch::fuzz {
namespace {

// Gone with the process.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    char name[] = "/tmp/launch-fuzz-XXXXXX";
    Require(::mkdtemp(name) != nullptr, "a directory can be made");
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void Write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The text in the pickles of DCP and of DeepSpeed.
void FuzzPickles(std::string_view bytes) {
  static const ScratchDirectory directory;
  static const std::string dcp = directory.path() + "/dcp";
  static const std::string tag = directory.path() + "/deepspeed/global_step1";
  std::filesystem::create_directories(dcp);
  std::filesystem::create_directories(tag);
  Write(dcp + "/__0_0.distcp", "x");
  Write(dcp + "/.metadata", std::string(bytes) + ".");  // as every pickle ends
  (void)agent::ReadCheckpoints(dcp, {});
  Write(directory.path() + "/deepspeed/latest", "global_step1");
  Write(tag + "/mp_rank_00_model_states.pt", bytes);
  (void)agent::OptimizerIsBeside(tag + "/mp_rank_00_model_states.pt", nullptr);
  (void)agent::ReadCheckpoints(directory.path() + "/deepspeed", {});
  static const std::string below = directory.path() + "/below";
  std::filesystem::create_directories(below + "/step1/model_and_optim");
  Write(below + "/step1/model_and_optim/__0_0.distcp", "x");
  Write(below + "/step1/model_and_optim/.metadata", std::string(bytes) + ".");
  (void)agent::ReadCheckpoints(below, {});
}

// The name of a directory of a rank of the model, a new line, and the text beside the iterations.
void FuzzMegatron(std::string_view bytes) {
  const ScratchDirectory directory;
  std::string name(bytes.substr(0, std::min<std::size_t>(bytes.find('\n'), 200)));
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, '\0', '_');
  const std::string rank = directory.path() + "/iter_0000002/mp_rank_" + name;
  std::filesystem::create_directories(rank);
  Write(rank + "/model_optim_rng.pt", "x");
  Write(directory.path() + "/latest_checkpointed_iteration.txt",
        bytes.substr(std::min(bytes.size(), name.size() + 1)));
  for (const CheckpointFound& one : agent::ReadCheckpoints(directory.path(), {.world = 2})) {
    Require(!one.complete, "a file that is no zip is not whole");
  }
}

void FuzzCheckpointName(std::string_view name) {
  Require(agent::StepNamedBy(name).value >= 0, "no step is negative");
  (void)agent::IsNameOfUnfinished(name);
  (void)agent::RoleNamedBy(name);
  (void)agent::RankNamedBy(name);
  (void)agent::SeriesNamedBy(name);
}

// What the programs of nodes and jobs say goes to the controller, which refuses what cannot be.
template <class Value>
void SendOn(const Value& value) {
  Require(FromProto(ToProto(value)).has_value(), "what was read can be sent");
}

}  // namespace

// The first byte says which format the file claims to be.
void FuzzCheckpoint(std::string_view bytes) {
  static const ScratchDirectory directory;
  static constexpr const char* kNames[] = {"step_1.pt", "model.safetensors", "epoch=1.ckpt",
                                           "latest"};
  if (bytes.empty()) return;
  if (bytes[0] == 'm') return FuzzPickles(bytes.substr(1));
  if (bytes[0] == 'n') return FuzzCheckpointName(bytes.substr(1));
  if (bytes[0] == 'i') return FuzzMegatron(bytes.substr(1));
  const std::string path =
      directory.path() + "/" + kNames[static_cast<unsigned char>(bytes[0]) % 4];
  Write(path, bytes.substr(1));
  (void)agent::WhyTorchIncomplete(path);
  (void)agent::WhySafetensorsIncomplete(path);
  (void)agent::ReadCheckpoints(directory.path(), {});
  (void)::unlink(path.c_str());
}

void FuzzFlightRecord(std::string_view bytes) {
  const auto record = ReadFlightRecord(bytes);
  if (!record) return;
  for (const FlightGroup& group : record->groups) {
    const std::string line = FlightLine(0, group);
    Require(line.starts_with(kFlightLine), "a line begins as diagnosis knows it");
    for (const char c : line) Require(c >= ' ' && c <= '~', "nothing that a terminal obeys");
  }
}

void FuzzLauncherProcesses(std::string_view bytes) {
  static const ScratchDirectory directory;
  Write(directory.path() + "/processes.jsonl", bytes);
  for (const LauncherProcess& process : agent::LauncherProcessesIn(directory.path()))
    Require(ProcessIn(LineOf(process)) == process, "a line of an exit report says all of it");
  (void)ProcessIn(bytes);
}

void FuzzNetworkAnswer(std::string_view bytes) {
  const NetworkFacts facts = ReadNetworkAnswer(bytes);
  for (const PeerFact& peer : facts.peers)
    Require(!peer.mbit || (std::isfinite(*peer.mbit) && *peer.mbit >= 0), "a speed is a number");
  SendOn(facts);
}

void FuzzPythonAnswer(std::string_view bytes) {
  const agent::PythonAnswer answer = agent::ReadPythonAnswer(bytes);
  Require(answer.facts.packages.size() <= 256 && answer.places.size() <= 256, "lists are bounded");
  Require(answer.facts.devices.value_or(0) >= 0, "no number of devices is negative");
  SendOn(answer.facts);
}

void FuzzPythonStacks(std::string_view bytes) {
  const std::vector<PythonThread> threads = ParseStacks(bytes);
  Require(threads.size() <= 256, "threads are bounded");
  Require((MainThread(threads) == nullptr) == threads.empty(), "one of the threads trains");
  for (const PythonThread& thread : threads)
    Require(thread.frames.size() <= 128, "frames are bounded");
}

void FuzzNvmlStrings(std::string_view bytes) {
  if (const auto facts = agent::DecodeFacts(bytes)) {
    Require(agent::DecodeFacts(agent::EncodeFacts(*facts)).has_value(), "facts can be said again");
  }
  if (const auto lists = agent::DecodeProcesses(bytes)) {
    const auto again = agent::DecodeProcesses(agent::EncodeProcesses(*lists));
    Require(again.has_value(), "process lists can be said again");
  }
  (void)agent::DecodeSamples(bytes);
  (void)agent::DecodeRequest(bytes);
}

// In two pieces, as they come from a file that grows.
void FuzzProgress(std::string_view bytes) {
  auto parser = agent::ProgressParser::Create("");
  Require(parser.has_value(), "a parser without a pattern can be made");
  const std::size_t half = bytes.size() / 2;
  parser->FeedLog(bytes.substr(0, half), BootMs(1'000));
  parser->FeedLog(bytes.substr(half), BootMs(2'000));
  parser->FeedFile(bytes.substr(0, half), BootMs(1'000));
  parser->FeedFile(bytes.substr(half), BootMs(2'000));
  const agent::Progress now = parser->Now();
  Require(!now.step || !now.steps || *now.steps >= 0, "a total is not negative");
}

// The first byte says which file of an attempt's directory it is.
void FuzzAttemptDirectory(std::string_view bytes) {
  static const ScratchDirectory scratch;
  static PosixFileSystem files;
  static constexpr const char* kNames[] = {"accept", "tombstone",    "released",   "lease",
                                           "acked",  "rank.0/start", "rank.0/exit"};
  if (bytes.empty()) return;
  const std::string rank = scratch.path() + "/rank.0";
  (void)::mkdir(rank.c_str(), 0700);
  const std::string path = scratch.path() + "/" + kNames[static_cast<unsigned char>(bytes[0]) % 7];
  Write(path, bytes.substr(1));
  const agent::AttemptDir attempt(scratch.path(), files);
  (void)attempt.ReadAccept();
  (void)attempt.ReadTombstone();
  (void)attempt.ReadReleased();
  (void)attempt.ReadLease();
  (void)attempt.ReadAcked();
  (void)attempt.ReadRank(0);
  (void)::unlink(path.c_str());
  (void)::rmdir(rank.c_str());
}

}  // namespace launch::fuzz
