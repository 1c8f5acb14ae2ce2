// What the arrays of one user, and jobs with long scripts, cost the controller's loop: the longest
// decision, which every other call waits for, beside one look for a place among the same nodes, and
// for scripts beside one reading of a script. One line of JSON.
//   queue-bench [nodes [elements that nothing can run [elements that all start [scripts]]]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "controller/core/decide.h"
#include "controller/core/offers.h"
#include "planner/planner.h"
#include "tests/bench/own_usage.h"
#include "tests/fakes/canned_plan.h"

namespace launch::controller {
namespace {

constexpr int kGpus = 8;  // of each node

using bench::CpuSeconds;
using bench::PeakMib;

NodeInventory Inventory(int number) {
  NodeInventory inventory;
  inventory.node = NodeId{"gpu" + std::to_string(number)};
  inventory.cores = inventory.threads = 128;
  inventory.memory_bytes = 1ULL << 40;
  inventory.driver = "570.0";
  inventory.driver_cuda = CudaVersion{12, 8};
  for (int i = 0; i < kGpus; ++i) {
    GpuDevice gpu;
    gpu.uuid = GpuUuid{"GPU-" + std::to_string(number) + "-" + std::to_string(i)};
    gpu.model = "NVIDIA H100 80GB HBM3";
    gpu.type = "H100";
    gpu.cc = ComputeCapability{9, 0};
    gpu.memory_bytes = 80ULL << 30;
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

JobSpec OneGpu() {
  JobSpec spec;
  spec.name = "sweep";
  spec.gpus = {{"", 1}};
  spec.gpus_written = true;
  spec.run = "python train.py --seed $LAUNCH_ARRAY_INDEX";
  spec.workdir = "/home/ana/proj";
  return spec;
}

// As a user's own start script: some settings, some functions, one launcher.
std::string Script(int number) {
  std::string text = "#!/bin/bash\n# " + std::to_string(number) + "\n";
  for (int i = 0; i < 128; ++i) text += "export V" + std::to_string(i) + "=1\n";
  for (int i = 0; i < 32; ++i) text += "f" + std::to_string(i) + "() {\n  echo $1\n}\n";
  return text + "torchrun --nproc_per_node=1 train.py\n";
}

// A core with attached nodes; plans are made when `Answer` says so, in the order they were wanted.
class Cluster {
 public:
  explicit Cluster(int nodes) {
    const auto started = Start(
        state_,
        [](std::string_view, const std::string&) -> Result<StoredPlan> {
          return Fail(ErrorCode::kDataLoss, "no plan was stored yet");
        },
        "bench", now_);
    LAUNCH_CHECK(started.has_value(), "an empty store does not open");
    for (int i = 0; i < nodes; ++i) {
      from_node::Hello hello;
      hello.inventory = Inventory(i);
      hello.boot_id = hello.machine.install_id = hello.inventory.node.value;
      const NodeId node = hello.inventory.node;
      Post(event::NodeAttached{SessionId{static_cast<std::uint64_t>(i) + 1}, node, hello});
    }
  }

  // Seconds of processor time of one decision.
  double Post(const Event& event) {
    const double began = CpuSeconds();
    Decision decision = Decide(state_, event, now_);
    const double took = CpuSeconds() - began;
    for (Effect& effect : decision.effects) {
      if (auto* plan = std::get_if<effect::PlanWanted>(&effect))
        wanted_.push_back(std::move(*plan));
    }
    most_wanted_ = std::max(most_wanted_, wanted_.size());
    return took;
  }

  void DrainAll() {
    std::vector<NodeId> nodes;
    for (const auto& [node, inventory] : state_.inventories) nodes.push_back(node);
    for (const NodeId& node : nodes)
      Post(event::Drain{RequestId{1}, {UserName{"root"}, true}, node});
  }

  // Arrays of as many elements as one may have. Seconds of the longest decision: that which makes
  // jobs of an array is the answer to its plan.
  double Submit(int elements, bool hold) {
    double longest = 0;
    for (; elements > 0; elements -= kMaxElements) {
      event::Submit submit;
      submit.request = RequestId{1};
      submit.caller = {UserName{"ana"}, false};
      submit.idempotency_key = submit.digest = "sweep " + std::to_string(elements);
      submit.spec = OneGpu();
      submit.spec.array = *ParseArray("0-" + std::to_string(std::min(elements, kMaxElements) - 1));
      submit.hold = hold;
      Post(submit);
      longest = std::max(longest, Answer());
    }
    return longest;
  }

  // Jobs that are no array, each with a script of its own; plans are made as the worker makes them.
  // Seconds of the longest decision.
  double SubmitScripts(int jobs) {
    double longest = 0;
    for (int i = 0; i < jobs; ++i) {
      event::Submit submit;
      submit.request = RequestId{1};
      submit.caller = {UserName{"ana"}, false};
      submit.idempotency_key = submit.digest = "script " + std::to_string(i);
      submit.spec = OneGpu();
      submit.spec.run = "bash train.sh";
      submit.context.files["train.sh"] = Script(i);
      longest = std::max(longest, Post(submit));
      const effect::PlanWanted plan = std::move(wanted_.front());
      wanted_.pop_front();
      event::Planned planned{plan.ticket, CannedPlan(plan)};
      planned.outcome.line = DemandIn(ReadLineOf(plan.spec, plan.context.files));
      longest = std::max(longest, Post(planned));
    }
    return longest;
  }

  // One call for all that waits.
  double Change(JobAction action, std::vector<JobId> jobs) {
    event::Change change{RequestId{2}, {UserName{"ana"}, false}, std::move(jobs), {}};
    change.change.action = action;
    return Post(change);
  }

  double Answer() {
    LAUNCH_CHECK(!wanted_.empty(), "no plan is wanted");
    const effect::PlanWanted plan = std::move(wanted_.front());
    wanted_.pop_front();
    event::Planned planned{plan.ticket, CannedPlan(plan)};
    return Post(planned);
  }

  // Seconds of one look for a place, with the copy of the offers that it needs.
  double PlaceOne() const {
    const std::vector<effect::NodeOffer> offers = MakeOffers(state_);
    std::vector<double> took;
    for (int i = 0; i < 101; ++i) {
      const double began = CpuSeconds();
      (void)Place(OneGpu(), ForPlanner(offers, UserName{"ana"}),
                  DemandIn(ReadLineOf(OneGpu(), {})));
      took.push_back(CpuSeconds() - began);
    }
    std::ranges::nth_element(took, took.begin() + 50);
    return took[50];
  }

  const State& state() const { return state_; }
  bool is_planning() const { return !wanted_.empty(); }
  std::size_t most_wanted() const { return most_wanted_; }

 private:
  State state_;
  Now now_{BootMs(1'000'000), WallMs(1'700'000'000'000)};
  std::deque<effect::PlanWanted> wanted_;
  std::size_t most_wanted_ = 0;
};

void Refused(int nodes, int elements) {
  Cluster cluster(nodes);
  cluster.DrainAll();
  const double place = cluster.PlaceOne();
  const double submit = cluster.Submit(elements, false);
  const JobId last = *cluster.state().queue.rbegin();
  const double hold = cluster.Change(JobAction::kHold, {last});
  const auto reason = cluster.state().live.reasons.find(*cluster.state().queue.begin());
  LAUNCH_CHECK(
      reason != cluster.state().live.reasons.end() && reason->second.code == "ReqNodeNotAvail",
      "the elements wait for something else");
  std::printf(
      "{\"refused\": %d, \"place_s\": %.6f, \"submit_s\": %.3f, \"submit_x\": %.0f, "
      "\"hold_s\": %.3f, \"hold_x\": %.0f",
      elements, place, submit, submit / place, hold, hold / place);
}

void AllStart(int nodes, int elements) {
  Cluster cluster(nodes);
  const double place = cluster.PlaceOne();
  cluster.Submit(elements, true);
  const std::set<JobId>& queue = cluster.state().queue;
  const double release = cluster.Change(JobAction::kRelease, {queue.begin(), queue.end()});
  double longest = 0;
  double all = release;
  while (cluster.is_planning()) {
    const double took = cluster.Answer();
    longest = std::max(longest, took);
    all += took;
  }
  LAUNCH_CHECK(cluster.state().active.size() == static_cast<std::size_t>(elements),
               "not all elements were started");
  std::printf(
      ", \"started\": %d, \"place_s\": %.6f, \"release_s\": %.3f, \"release_x\": %.0f, "
      "\"longest_answer_s\": %.3f, \"longest_answer_x\": %.0f, \"all_s\": %.1f, "
      "\"plans_waiting\": %zu, \"peak_mib\": %.0f",
      elements, place, release, release / place, longest, longest / place, all,
      cluster.most_wanted(), PeakMib());
}

// Jobs with scripts that wait for drained nodes: each pass over the queue looks for their places.
void Scripts(int nodes, int jobs) {
  Cluster cluster(nodes);
  cluster.DrainAll();
  const double place = cluster.PlaceOne();
  JobSpec spec = OneGpu();
  spec.run = "bash train.sh";
  const double began = CpuSeconds();
  const Result<LaunchLine> line = ReadLineOf(spec, {{"train.sh", Script(0)}});
  const double read = CpuSeconds() - began;
  LAUNCH_CHECK(line.has_value(), "the script was not read");
  const double submit = cluster.SubmitScripts(jobs);
  const double hold = cluster.Change(JobAction::kHold, {*cluster.state().queue.rbegin()});
  std::printf(
      ", \"scripts\": %d, \"read_s\": %.6f, \"place_s\": %.6f, \"submit_s\": %.3f, \"hold_s\": "
      "%.3f, \"hold_reads\": %.1f, \"hold_x\": %.0f}\n",
      jobs, read, place, submit, hold, hold / read, hold / place);
}

}  // namespace
}  // namespace launch::controller

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  const int nodes = number(1, 1'000);
  launch::controller::Refused(nodes, number(2, 10'000));
  launch::controller::AllStart(nodes, number(3, 8'000));
  launch::controller::Scripts(nodes, number(4, 200));
}
