#include "agent/probes/probe_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>

#include "common/unique_fd.h"
#include "tests/unit/agent/probes/scripted_gpus.h"
#include "tests/unit/agent/probes/settable_clock.h"
#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

// What the agent core was told, with a way to wait for more.
class Recorder {
 public:
  ToldSink Sink() {
    return [this](Told told) {
      const std::lock_guard lock(mutex_);
      if (auto* inventory = std::get_if<told::Inventory>(&told))
        inventories_.push_back(std::move(*inventory));
      if (auto* sampled = std::get_if<told::Sampled>(&told))
        samples_.push_back(std::move(sampled->samples));
      changed_.notify_all();
    };
  }
  std::vector<told::Inventory> Inventories(std::size_t at_least) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return inventories_.size() >= at_least; });
    return inventories_;
  }
  std::vector<from_node::Samples> Samples(std::size_t at_least) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return samples_.size() >= at_least; });
    return samples_;
  }

 private:
  static constexpr Millis kPatience{60'000};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<told::Inventory> inventories_;
  std::vector<from_node::Samples> samples_;
};

// Serialises a test's changes with the probe thread.
class GuardedGpus final : public GpuProbe {
 public:
  GpuFacts List() override {
    const std::lock_guard lock(mutex_);
    ++lists_;
    if (on_list_) on_list_(gpus_);
    return gpus_.facts;
  }
  std::vector<GpuSample> Sample() override {
    const std::lock_guard lock(mutex_);
    return gpus_.samples;
  }
  std::optional<GpuProcessList> Processes() override {
    const std::lock_guard lock(mutex_);
    return gpus_.processes;
  }
  void Edit(const std::function<void(ScriptedGpus&)>& edit) {
    const std::lock_guard lock(mutex_);
    edit(gpus_);
  }
  int Lists() {
    const std::lock_guard lock(mutex_);
    return lists_;
  }
  void OnList(std::function<void(ScriptedGpus&)> edit) {
    const std::lock_guard lock(mutex_);
    on_list_ = std::move(edit);
  }

 private:
  std::mutex mutex_;
  ScriptedGpus gpus_;
  int lists_ = 0;
  std::function<void(ScriptedGpus&)> on_list_;
};

class ProbeThreadTest : public ::testing::Test {
 protected:
  ProbeThreadTest() {
    config.node.value = "gpu01";
    config.path = tree.Path("bin");
    options.sample_period = Millis{3'600'000};
    options.inventory_period = Millis{3'600'000};
    gpus.Edit([](ScriptedGpus& all) {
      all.facts = FourGpus();
      for (const GpuDevice& gpu : all.facts.gpus)
        all.samples.push_back({.uuid = gpu.uuid, .utilization = 0.25});
    });
  }
  void Start() {
    inventory.emplace(InventoryProbe::Options{.config = config}, gpus, clock);
    thread.emplace(options, *inventory, clock, told.Sink());
  }

  TemporaryTree tree;
  AgentConfig config;
  GuardedGpus gpus;
  SettableClock clock;
  Recorder told;
  ProbeThread::Options options;
  std::optional<InventoryProbe> inventory;
  std::optional<ProbeThread> thread;
};

TEST_F(ProbeThreadTest, TellsTheInventoryAndASampleAtTheStart) {
  Start();
  const auto inventories = told.Inventories(1);
  ASSERT_GE(inventories.size(), 1u);
  EXPECT_EQ(inventories[0].inventory.gpus.size(), 4u);
  const auto samples = told.Samples(1);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].gpus.size(), 4u);
  EXPECT_EQ(samples[0].boot, clock.Now());
}

TEST_F(ProbeThreadTest, TellsWhatTorchSaysAfterTheRest) {
  tree.Script("bin/python3", R"(echo '@launch-python-probe {"stage":"a","python":"3.11.9","torch":)"
                             R"({"version":"2.7.1","path":"/t"}}'; [ "$3" = import ] || exit 0
                 echo '@launch-python-probe {"stage":"b","sees_gpu":true}')");
  Start();
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u);
  EXPECT_EQ(inventories[0].inventory.interpreters.at(0).sees_gpu, std::nullopt);
  EXPECT_EQ(inventories[1].inventory.interpreters.at(0).sees_gpu, true);
}

TEST_F(ProbeThreadTest, SamplesGoOnWhileAnImportTakesItsTime) {
  options.sample_period = Millis{20};
  const std::string gate = tree.Path("gate");
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  tree.Script("bin/python3", R"(echo '@launch-python-probe {"stage":"a","python":"3.11.9","torch":)"
                             R"({"version":"2.7.1","path":"/t"}}'; [ "$3" = import ] || exit 0
                 read go <)" + gate +
                                 R"(
                 echo '@launch-python-probe {"stage":"b","sees_gpu":true}')");
  Start();
  EXPECT_GE(told.Samples(5).size(), 5u);
  EXPECT_EQ(told.Inventories(1).size(), 1u);
  std::ofstream(gate) << "go\n";  // waits until the import is there
  EXPECT_EQ(told.Inventories(2).at(1).inventory.interpreters.at(0).sees_gpu, true);
}

TEST_F(ProbeThreadTest, GivesEachProcessListWithTheTimeOfTheQuestion) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<GpuProcessSnapshot> seen;
  options.on_processes = [&](GpuProcessSnapshot one) {
    const std::lock_guard lock(mutex);
    seen.push_back(std::move(one));
    changed.notify_all();
  };
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, Millis{60'000}, [&] { return seen.size() >= count; });
  };
  Start();
  ASSERT_TRUE(wait_for(1));
  (void)told.Samples(1);
  clock.Advance(Millis{7'000});
  thread->RequestProcesses();
  ASSERT_TRUE(wait_for(2)) << "told though nothing changed";
  EXPECT_EQ(seen[1].asked, clock.Now());
  EXPECT_EQ(seen[1].asked - seen[0].asked, Millis{7'000});
  thread.reset();
}

TEST_F(ProbeThreadTest, TellsAnInventoryOnRequestOnlyWhenItChanged) {
  Start();
  (void)told.Samples(1);
  thread->RequestInventory();
  gpus.Edit([](ScriptedGpus& all) { all.facts.gpus[2].health = Health::kBad; });
  thread->RequestInventory();
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u) << "the same inventory was not told again";
  EXPECT_EQ(inventories[1].inventory.gpus[2].health, Health::kBad);
}

TEST_F(ProbeThreadTest, TellsNewProcessesAlsoWhenTheRestIsTheSame) {
  Start();
  (void)told.Samples(1);
  gpus.Edit([](ScriptedGpus& all) {
    all.processes->emplace_back(all.facts.gpus[0].uuid, std::vector<GpuProcess>{{.pid = 4711}});
  });
  thread->RequestInventory();
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u);
  EXPECT_EQ(inventories[1].processes.at(0).second.at(0).pid, 4711);
}

TEST_F(ProbeThreadTest, AGpuThatFallsSilentIsLookedAtAtOnce) {
  options.sample_period = Millis{20};
  Start();
  (void)told.Samples(1);
  gpus.Edit([](ScriptedGpus& all) {
    all.facts.gpus[1].health = Health::kBad;
    all.samples[1] = {.uuid = all.samples[1].uuid};
  });
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u) << "not only when the next inventory is due";
  EXPECT_EQ(inventories[1].inventory.gpus[1].health, Health::kBad);
}

TEST_F(ProbeThreadTest, ADriverThatHangsInItsFirstSampleIsLookedAtAtOnce) {
  options.sample_period = Millis{20};
  gpus.Edit([](ScriptedGpus& all) {
    all.samples.clear();  // no answer at all
  });
  Start();
  (void)told.Samples(1);
  gpus.Edit([](ScriptedGpus& all) { all.facts.problem = "driver_unresponsive: no answer"; });
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u);
  EXPECT_EQ(inventories[1].inventory.driver_problem, "driver_unresponsive: no answer");
}

TEST_F(ProbeThreadTest, FollowsTheSamplePeriodAndAddsTheRanks) {
  options.rank_samples = [] {
    return std::vector<RankSample>{{.key = {JobId{7}, Attempt{1}}, .rank = 2, .rss_bytes = 99}};
  };
  Start();
  ASSERT_EQ(told.Samples(1).at(0).ranks.at(0).rss_bytes, 99u);
  thread->SetSamplePeriod(Millis{100});
  EXPECT_GE(told.Samples(3).size(), 3u);
}

TEST_F(ProbeThreadTest, ProbesTheInterpreterOfAJob) {
  Start();
  (void)told.Samples(1);
  thread->AddInterpreter(
      tree.Script("job/python",
                  R"(echo '@launch-python-probe {"stage":"a","python":"3.12.1","torch":null}')"),
      "");
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u);
  EXPECT_EQ(inventories[1].inventory.interpreters.at(0).python, "3.12.1");
}

// Its file system is dead, as far as the agent can tell.
TEST_F(ProbeThreadTest, ListsProcessesWhileAnInterpreterDoesNotAnswer) {
  const std::string asked = tree.Path("asked");
  const std::string gate = tree.Path("gate");
  ASSERT_EQ(::mkfifo(asked.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  const UniqueFd open(::open(gate.c_str(), O_RDWR | O_CLOEXEC));  // for a writer that never comes
  Start();
  (void)told.Samples(1);
  thread->AddInterpreter(tree.Script("job/python", "echo >" + asked + "; read go <" + gate), "");
  (void)std::ifstream(asked).get();  // waits for it
  gpus.Edit([](ScriptedGpus& all) {
    all.processes = GpuProcessList{{all.facts.gpus[0].uuid, {GpuProcess{.pid = 4711}}}};
  });
  thread->RequestProcesses();
  const auto inventories = told.Inventories(2);
  ASSERT_EQ(inventories.size(), 2u);
  EXPECT_EQ(inventories[1].processes.at(0).second.at(0).pid, 4711);
  EXPECT_TRUE(inventories[1].inventory.interpreters.empty()) << "it has not answered";
  EXPECT_EQ(::write(open.get(), "go\n", 3), 3);
}

TEST_F(ProbeThreadTest, TellsOtherProcessesWithoutLookingAtTheRest) {
  Start();
  (void)told.Samples(1);
  ASSERT_EQ(told.Inventories(1).size(), 1u);
  const int before = gpus.Lists();
  gpus.Edit([](ScriptedGpus& all) {
    for (const GpuDevice& gpu : all.facts.gpus)
      all.processes->push_back({gpu.uuid, {GpuProcess{.pid = 4711}}});
  });
  thread->RequestProcesses();
  ASSERT_EQ(told.Inventories(2).size(), 2u);
  EXPECT_EQ(told.Inventories(2)[1].processes.at(0).second.at(0).pid, 4711);
  EXPECT_EQ(gpus.Lists(), before);
}

// A driver that lists the processes of the GPUs up to one of them.
class ProbeThreadLostGpuTest : public ProbeThreadTest {
 protected:
  void StartWith(std::size_t listed) {
    gpus.Edit([listed](ScriptedGpus& all) {
      for (std::size_t i = 0; i < listed; ++i)
        all.processes->push_back({all.facts.gpus[i].uuid, {}});
    });
    options.on_processes = [this](const GpuProcessSnapshot& seen) {
      const std::lock_guard lock(mutex);
      lists.push_back(seen.lists);
      changed.notify_all();
    };
    Start();
    (void)told.Samples(1);
    before = gpus.Lists();
  }
  // How often the GPUs were listed for it.
  int ListsForARequest() {
    std::unique_lock lock(mutex);
    const std::size_t asked = lists.size();
    thread->RequestProcesses();
    EXPECT_TRUE(changed.wait_for(lock, Millis{60'000}, [&] { return lists.size() > asked; }));
    lock.unlock();
    thread.reset();  // what it began is done
    return gpus.Lists() - before;
  }
  // The library sees it after its new start.
  static void Find(ScriptedGpus& all) {
    if (all.processes->size() > 3) return;
    all.facts.gpus[3].health = Health::kOk;
    all.processes->push_back({all.facts.gpus[3].uuid, {}});
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<GpuProcessList> lists;
  int before = 0;
};

TEST_F(ProbeThreadLostGpuTest, OneThatIsBackIsInTheListThatIsAskedFor) {
  StartWith(4);
  gpus.Edit([](ScriptedGpus& all) { all.processes->pop_back(); });
  gpus.OnList(Find);
  EXPECT_EQ(ListsForARequest(), 1) << "the inventory is made of the same";
  EXPECT_EQ(lists.back().size(), 4u);
}

TEST_F(ProbeThreadLostGpuTest, OneThatWasLostFromTheStartIsLookedForAndToldAtOnce) {
  gpus.Edit([](ScriptedGpus& all) { all.facts.gpus[3].health = Health::kBad; });
  StartWith(3);
  gpus.OnList(Find);
  EXPECT_EQ(ListsForARequest(), 1);
  const auto inventories = told.Inventories(3);
  ASSERT_EQ(inventories.size(), 3u);
  EXPECT_EQ(inventories[1].processes.size(), 4u);
  EXPECT_EQ(inventories[2].inventory.gpus[3].health, Health::kOk);
}

TEST_F(ProbeThreadLostGpuTest, OneWhoseProcessesTheDriverNeverTellsIsNotLookedFor) {
  StartWith(3);
  EXPECT_EQ(ListsForARequest(), 0);
}

TEST_F(ProbeThreadLostGpuTest, ADriverThatDoesNotAnswerIsNotAskedTwice) {
  StartWith(4);
  gpus.Edit([](ScriptedGpus& all) { all.processes.reset(); });
  EXPECT_EQ(ListsForARequest(), 0);
  EXPECT_TRUE(lists.back().empty());
}

TEST_F(ProbeThreadTest, SaysAnInventoryThatCannotBeMade) {
  config.cores = CoreSubset{1'000'000, 1};
  std::mutex mutex;
  std::string said;
  options.on_error = [&](const Error& error) {
    const std::lock_guard lock(mutex);
    said = error.message;
  };
  Start();
  (void)told.Samples(1);
  thread.reset();
  EXPECT_NE(said.find("1000000"), std::string::npos) << said;
  EXPECT_TRUE(told.Inventories(0).empty());
}

}  // namespace
}  // namespace launch::agent
