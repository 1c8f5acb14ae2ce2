// The threads that ask the machine, so that a slow answer never holds the agent's loop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/core/gpu_processes.h"
#include "agent/probes/inventory_probe.h"
#include "agent/runner/rank_runner.h"
#include "common/clock.h"

namespace launch::agent {

// Tells told::Inventory at the start (without imports of torch) and whenever it changed, and
// told::Sampled each period. Interpreters have a thread of their own: an import may take minutes
// and a look at a dead network file system for ever, and samples and the lists of processes, on
// which the release of GPUs waits, must go on. All methods are safe from every thread.
class ProbeThread {
 public:
  struct Options {
    Millis inventory_period{60'000};
    // The first inventory waits this long for what can be read of the interpreters.
    Millis first_reading{10'000};
    Millis sample_period{5'000};
    // Adds what only the agent knows of its ranks (memory, step); called on the probe thread.
    std::function<std::vector<RankSample>()> rank_samples;
    // The processes of our ranks as of the last rank_samples, and what else runs for our jobs;
    // called once for each sample with processes on a GPU.
    std::function<std::set<std::int64_t>()> our_processes;
    std::function<void(const Error&)> on_error;  // an inventory that could not be made
    // Each process list as it was asked for, changed or not, and when the question was put; called
    // on the probe thread.
    std::function<void(GpuProcessSnapshot)> on_processes;
  };
  // `inventory` and its GPU probe are used by this thread alone from now on and outlive it.
  ProbeThread(Options options, InventoryProbe& inventory, Clock& clock, ToldSink sink);
  // Waits for the questions in flight, which have deadlines.
  ~ProbeThread();

  void SetSamplePeriod(Millis period);  // of Welcome
  void RequestInventory();              // soon: an event hints at a change
  // Soon: somebody needs a list younger than now. Another one than was told is told, with the last
  // inventory. A GPU that was lost is looked for once more.
  void RequestProcesses();
  void RequestSample();  // soon: something will not be there at the next period
  void AddInterpreter(std::string path, std::string user);

 private:
  void Run();
  void RunPython();
  void TakeFirstReading(NodeInventory& inventory);
  void TellInventory(Result<NodeInventory> inventory);
  // The GPUs as they are now, where one that was lost is back.
  std::optional<GpuFacts> TellProcesses();
  std::optional<GpuProcessList> AskProcesses();
  // How many GPUs of the last inventory are not among them, of those that are lost or were there
  // before: of others the driver never tells the processes.
  std::size_t CountLost(const GpuProcessList& lists) const;
  void TellSample();
  // Fills in whose the memory of each GPU is.
  void TellOwners(std::vector<GpuSample>& samples);
  // A GPU that told numbers before and now tells none, or one that is told to be well but has no
  // sample at all: the inventory must say why.
  bool WentSilent(const std::vector<GpuSample>& samples) const;

  Options options_;  // sample_period: guarded by mutex_
  InventoryProbe& inventory_;
  Clock& clock_;
  const ToldSink sink_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;                                          // guarded by mutex_
  bool python_wanted_ = false;                                 // guarded by mutex_
  bool python_read_ = false;                                   // guarded by mutex_
  bool reading_awaited_ = false;                               // guarded by mutex_
  bool wanted_ = false;                                        // guarded by mutex_
  bool sample_wanted_ = false;                                 // guarded by mutex_
  bool processes_wanted_ = false;                              // guarded by mutex_
  std::vector<std::pair<std::string, std::string>> to_probe_;  // guarded by mutex_

  std::optional<NodeInventory> told_;                            // probe thread only, as the rest
  std::optional<std::chrono::steady_clock::time_point> looked_;  // for lost GPUs
  GpuProcessList told_processes_;
  std::set<GpuUuid> listed_;  // whose processes were ever told
  std::vector<GpuSample> last_samples_;
  std::thread thread_;
  std::thread python_thread_;
};

}  // namespace launch::agent
