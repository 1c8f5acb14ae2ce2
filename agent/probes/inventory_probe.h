// Puts the probes together to what a node reports about itself.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/probes/gpu_probe.h"
#include "agent/probes/host_probe.h"
#include "agent/probes/python_probe.h"
#include "common/agent_config.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/inventory.h"
#include "common/node_messages.h"

namespace launch::agent {

// Environment that every rank starts from: HOME USER SHELL LANG TMPDIR PATH and, when set in
// agent.yaml, LD_LIBRARY_PATH. Where ranks run as their submitters, HOME, USER and SHELL are
// not the agent's and stay out. `own` is the agent's environment.
std::map<std::string, std::string> BaseEnvironment(const AgentConfig& config,
                                                   const std::map<std::string, std::string>& own);
std::map<std::string, std::string> OwnEnvironment();

// Blocking; one caller thread but where said. Revision and install id are the core's.
class InventoryProbe {
 public:
  struct Options {
    AgentConfig config;
    Containment containment = Containment::kTree;  // the runner knows what it can
    HostRoots roots;                               // proc of `config` is taken instead
    MakeProbeScope scope = {};                     // where interpreters of users run
  };
  // Construct before threads start (ConfigureHwloc). `gpus` outlives this.
  InventoryProbe(Options options, GpuProbe& gpus, Clock& clock);

  // Looks at nothing but the node's own files: of interpreters, which lie where their users want
  // them, it tells what ReadPython and ImportTorch last found, and of a new one nothing.
  // `listed`: what ListGpus said just now.
  Result<NodeInventory> Probe(std::optional<GpuFacts> listed = std::nullopt);
  // Both for a thread of its own, which a dead network file system may hold for ever; true when
  // there is something new to tell. What can be read of the interpreters of the last Probe, within
  // ten seconds each:
  bool ReadPython();
  // Imports torch in those that are not known yet, up to two minutes each.
  bool ImportTorch();
  // What is known by now of the interpreters of the last Probe. From any thread.
  std::vector<RuntimeFacts> Python();

  // An interpreter that a job used here is probed from now on.
  void AddInterpreter(const std::string& path, const std::string& user);

  // Samples the GPUs and the machine of the last inventory; a simulated machine has neither.
  from_node::Samples Sample();
  std::optional<GpuProcessList> Processes();  // absent: the driver does not answer
  // The driver's library sees a lost GPU that is back only after a new start, which this makes.
  GpuFacts ListGpus();

 private:
  std::vector<PythonQuestion> Questions(const NodeInventory& inventory) const;
  std::vector<PythonQuestion> LastQuestions();
  bool Learn(const PythonQuestion& question, RuntimeFacts facts);

  const Options options_;
  GpuProbe& gpus_;
  const std::map<std::string, std::string> base_env_;
  PythonProbe python_;
  std::vector<std::pair<std::string, std::string>> used_;  // path, user
  CoherentMode coherent_ = CoherentMode::kNone;            // of the last probe
  std::set<GpuUuid> own_gpus_;
  std::mutex mutex_;
  std::vector<PythonQuestion> questions_;                // guarded by mutex_
  std::map<PythonQuestion, RuntimeFacts> known_python_;  // guarded by mutex_
};

// Whether the inventories are the same to a scheduler. Revision and the times of Python probes do
// not count.
bool SameInventory(NodeInventory a, NodeInventory b);

// The part of a machine that `dev up --nodes N` gives one agent. Positions of GPUs that do not
// exist are no GPUs, for who writes them may not know the machine; cores that do not exist are an
// error.
Result<NodeInventory> TakeSubset(NodeInventory whole, const AgentConfig& config);

// The node's entry of an inventory file, marked simulated (`inventory_file`).
Result<NodeInventory> SimulatedInventory(const AgentConfig& config);

}  // namespace launch::agent
