#include "agent/probes/probe_thread.h"

#include <algorithm>
#include <chrono>

namespace launch::agent {
namespace {

constexpr std::chrono::seconds kLookAgainAfter{2};

bool Silent(const GpuSample& sample) {
  return !sample.utilization && !sample.used_bytes && !sample.power_w && !sample.temperature_c;
}

}  // namespace

ProbeThread::ProbeThread(Options options, InventoryProbe& inventory, Clock& clock, ToldSink sink)
    : options_(std::move(options)),
      inventory_(inventory),
      clock_(clock),
      sink_(std::move(sink)),
      thread_([this] { Run(); }),
      python_thread_([this] { RunPython(); }) {}

ProbeThread::~ProbeThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  python_thread_.join();
}

void ProbeThread::SetSamplePeriod(Millis period) {
  const std::lock_guard lock(mutex_);
  options_.sample_period = std::max(period, Millis{100});
  wake_.notify_all();
}

void ProbeThread::RequestInventory() {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  wake_.notify_all();
}

void ProbeThread::RequestProcesses() {
  const std::lock_guard lock(mutex_);
  processes_wanted_ = true;
  wake_.notify_all();
}

void ProbeThread::RequestSample() {
  const std::lock_guard lock(mutex_);
  sample_wanted_ = true;
  wake_.notify_all();
}

void ProbeThread::AddInterpreter(std::string path, std::string user) {
  const std::lock_guard lock(mutex_);
  to_probe_.emplace_back(std::move(path), std::move(user));
  wanted_ = true;
  wake_.notify_all();
}

void ProbeThread::Run() {
  using std::chrono::steady_clock;
  bool inventory_due = true;
  steady_clock::time_point next_inventory{};
  std::optional<steady_clock::time_point> last_sample;  // the first is due at once
  std::unique_lock lock(mutex_);
  const auto next_sample = [&] {
    return last_sample ? *last_sample + options_.sample_period : steady_clock::time_point{};
  };
  while (!stop_) {
    if (!wanted_ && !sample_wanted_ && !processes_wanted_ && !inventory_due)
      wake_.wait_until(lock, std::min(next_sample(), next_inventory));
    if (stop_) break;
    const std::vector<std::pair<std::string, std::string>> used = std::exchange(to_probe_, {});
    inventory_due = std::exchange(wanted_, false) || steady_clock::now() >= next_inventory;
    const bool sample_due =
        std::exchange(sample_wanted_, false) || steady_clock::now() >= next_sample();
    const bool processes_due = std::exchange(processes_wanted_, false);
    lock.unlock();
    std::optional<GpuFacts> gpus;
    if (processes_due) gpus = TellProcesses();  // first: somebody waits for it
    for (const auto& [path, user] : used) inventory_.AddInterpreter(path, user);
    if (inventory_due || gpus) {  // before the first sample: it says whose samples these are
      TellInventory(inventory_.Probe(std::move(gpus)));
      next_inventory = steady_clock::now() + options_.inventory_period;
    }
    if (sample_due) {
      last_sample = steady_clock::now();
      TellSample();
    }
    lock.lock();
    inventory_due = false;
  }
}

void ProbeThread::RunPython() {
  std::unique_lock lock(mutex_);
  const auto learn = [&](bool (InventoryProbe::*what)()) {
    lock.unlock();
    const bool learnt = (inventory_.*what)();
    lock.lock();
    if (learnt && !reading_awaited_) wanted_ = true;
    python_read_ = true;
    wake_.notify_all();
  };
  while (!stop_) {
    wake_.wait(lock, [this] { return stop_ || python_wanted_; });
    if (stop_) break;
    python_wanted_ = false;
    learn(&InventoryProbe::ReadPython);
    wake_.wait(lock, [this] { return stop_ || !reading_awaited_; });
    if (!stop_) learn(&InventoryProbe::ImportTorch);
  }
}

void ProbeThread::TakeFirstReading(NodeInventory& inventory) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, options_.first_reading, [this] { return stop_ || python_read_; });
  inventory.interpreters = inventory_.Python();
  reading_awaited_ = false;
  wake_.notify_all();
}

void ProbeThread::TellInventory(Result<NodeInventory> inventory) {
  const bool first = inventory && !told_ && !inventory->simulated;
  {
    const std::lock_guard lock(mutex_);
    python_wanted_ = true;
    reading_awaited_ = first;
    wake_.notify_all();
  }
  if (!inventory) {
    if (options_.on_error) options_.on_error(inventory.error());
    return;
  }
  if (first) TakeFirstReading(*inventory);
  GpuProcessList processes = AskProcesses().value_or(GpuProcessList());
  if (told_ && SameInventory(*told_, *inventory) && processes == told_processes_) return;
  told_ = *inventory;
  told_processes_ = processes;
  sink_(told::Inventory{*std::move(inventory), std::move(processes)});
}

// Of the known inventory: nothing else is looked at anew.
std::optional<GpuFacts> ProbeThread::TellProcesses() {
  std::optional<GpuProcessList> processes = AskProcesses();
  std::optional<GpuFacts> gpus;
  const std::size_t lost = processes ? CountLost(*processes) : 0;
  const auto now = std::chrono::steady_clock::now();
  // A new start of the library takes its time.
  if (lost > 0 && (!looked_ || *looked_ + kLookAgainAfter <= now)) {
    looked_ = now;
    gpus = inventory_.ListGpus();
    processes = AskProcesses();
    if (!processes || CountLost(*processes) >= lost) gpus.reset();
  }
  GpuProcessList lists = std::move(processes).value_or(GpuProcessList());
  if (told_ && lists != told_processes_) {
    told_processes_ = lists;
    sink_(told::Inventory{*told_, std::move(lists)});
  }
  return gpus;
}

std::optional<GpuProcessList> ProbeThread::AskProcesses() {
  const BootTime asked = clock_.Now();
  std::optional<GpuProcessList> lists = inventory_.Processes();
  if (options_.on_processes)
    options_.on_processes({.asked = asked, .lists = lists.value_or(GpuProcessList())});
  if (lists)
    for (const auto& [uuid, processes] : *lists) listed_.insert(uuid);
  return lists;
}

std::size_t ProbeThread::CountLost(const GpuProcessList& lists) const {
  if (!told_ || told_->simulated) return 0;
  const auto is_lost = [&](const GpuDevice& gpu) {
    if (gpu.health != Health::kBad && !listed_.contains(gpu.uuid)) return false;
    return std::ranges::find(lists, gpu.uuid, &GpuProcessList::value_type::first) == lists.end();
  };
  return static_cast<std::size_t>(std::ranges::count_if(told_->gpus, is_lost));
}

bool ProbeThread::WentSilent(const std::vector<GpuSample>& samples) const {
  const auto sample_of = [&](const GpuUuid& uuid) {
    return std::find_if(samples.begin(), samples.end(),
                        [&](const GpuSample& sample) { return sample.uuid == uuid; });
  };
  for (const GpuSample& before : last_samples_) {
    const auto now = sample_of(before.uuid);
    if (!Silent(before) && (now == samples.end() || Silent(*now))) return true;
  }
  if (!told_ || told_->simulated || !told_->driver_problem.empty()) return false;
  return std::any_of(told_->gpus.begin(), told_->gpus.end(), [&](const GpuDevice& gpu) {
    return gpu.health != Health::kBad && sample_of(gpu.uuid) == samples.end();
  });
}

void ProbeThread::TellOwners(std::vector<GpuSample>& samples) {
  if (samples.empty() || !options_.our_processes) return;
  const GpuProcessList lists = AskProcesses().value_or(GpuProcessList());
  const bool any =
      std::ranges::any_of(lists, [](const auto& list) { return !list.second.empty(); });
  const std::set<std::int64_t> own = any ? options_.our_processes() : std::set<std::int64_t>();
  for (const auto& [uuid, processes] : lists) {
    const auto sample = std::ranges::find(samples, uuid, &GpuSample::uuid);
    if (sample == samples.end()) continue;
    std::uint64_t ours = 0;
    std::uint64_t foreign = 0;
    bool known = true;
    for (const GpuProcess& process : processes) {
      known = known && process.bytes;
      (own.contains(process.pid) ? ours : foreign) += process.bytes.value_or(0);
    }
    if (!known) continue;
    sample->ours_bytes = ours;
    sample->foreign_bytes = foreign;
  }
}

void ProbeThread::TellSample() {
  from_node::Samples samples = inventory_.Sample();
  if (options_.rank_samples) samples.ranks = options_.rank_samples();
  TellOwners(samples.gpus);
  samples.boot = clock_.Now();
  const bool silent = WentSilent(samples.gpus);
  last_samples_ = samples.gpus;
  sink_(told::Sampled{std::move(samples)});
  if (silent) RequestInventory();
}

}  // namespace launch::agent
