// Which lines of the kernel count for a rank.
#include "agent/runner/kernel_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace launch::agent {
namespace {

class Kernel : public testing::Test {
 protected:
  std::vector<std::string> Of(const std::vector<std::pair<int, std::string>>& at_second) {
    KernelLines lines(wish_);
    int sequence = 100;
    for (const auto& [second, text] : at_second) {
      lines.Add("6," + std::to_string(++sequence) + "," + std::to_string(second) + "000000,-;" +
                text + "\n SUBSYSTEM=pci\n");
    }
    return lines.Take();
  }
  KernelLogWish wish_{.started = BootMs(1'000'000),
                      .ended = BootMs(2'000'000),
                      .pid = 4711,
                      .cgroup = "launch-a/7.1"};
};

TEST_F(Kernel, GpuErrorsCountFromTheStartOn) {
  const std::string xid = "NVRM: Xid (PCI:0000:C1:00): 79, pid=4711, GPU has fallen off the bus.";
  EXPECT_EQ(Of({{900, xid}, {1'100, xid}, {2'001, xid}, {2'100, xid}}).size(), 2u);
  EXPECT_EQ(Of({{1'100, xid}}).at(0), xid);
}

TEST_F(Kernel, OnlyOwnProcessesWereKilled) {
  const auto lines =
      Of({{1'990,
           "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/launch-a/8.1,task_memcg=/launch-a/"
           "8.1,task=python,pid=9,uid=0"},
          {1'990, "Memory cgroup out of memory: Killed process 9 (python) total-vm:1kB"},
          {1'991,
           "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/launch-a/7.1,task_memcg=/launch-a/7.1/"
           "rank.0,task=python,pid=4720,uid=0"},
          {1'991, "Memory cgroup out of memory: Killed process 4720 (python) total-vm:1kB"},
          {1'992, "Out of memory: Killed process 4711 (python) total-vm:1kB"}});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("pid=4720"), std::string::npos);
  EXPECT_NE(lines[1].find("process 4720"), std::string::npos);
  EXPECT_NE(lines[2].find("process 4711"), std::string::npos);
}

TEST_F(Kernel, TroubleOfTheNodeCountsAMinuteBeforeTheEnd) {
  EXPECT_EQ(Of({{1'500, "nfs: server store not responding, timed out"}}).size(), 0u);
  EXPECT_EQ(Of({{1'980, "nfs: server store not responding, timed out"}}).size(), 1u);
  EXPECT_EQ(Of({{1'980, "usb 1-1: new device"}}).size(), 0u);
}

TEST_F(Kernel, TheLimitOfProcessesIsThatOfTheOwnGroup) {
  const std::string rejected = "cgroup: fork rejected by pids controller in /launch-a/";
  EXPECT_EQ(Of({{1'500, rejected + "7.1/rank.0"}, {1'600, rejected + "8.1/rank.0"}}).size(), 1u);
}

TEST_F(Kernel, MemoryThatCannotBeMendedCounts) {
  EXPECT_EQ(Of({{1'990, "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"},
                {1'991, "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"},
                {1'992,
                 "Memory failure: 0x1f2a3: Killing python:4711 due to hardware memory "
                 "corruption"}})
                .size(),
            2u);
}

TEST_F(Kernel, ACrashNamesTheProcess) {
  EXPECT_EQ(Of({{1'999, "python[4711]: segfault at 0 ip 00007f in libfoo.so[7f+1]"}}).size(), 1u);
  EXPECT_EQ(Of({{1'999, "python[4712]: segfault at 0 ip 00007f in libfoo.so[7f+1]"}}).size(), 0u);
}

TEST_F(Kernel, TheNewestStayAndLongOnesAreCut) {
  std::vector<std::pair<int, std::string>> many;
  for (int i = 0; i < 100; ++i) many.emplace_back(1'500 + i, "NVRM: Xid " + std::to_string(i));
  many.emplace_back(1'700, "NVRM: Xid " + std::string(4'000, 'x'));
  const auto lines = Of(many);
  ASSERT_EQ(lines.size(), 32u);
  EXPECT_EQ(lines.back().size(), 512u);
  EXPECT_EQ(lines.at(30), "NVRM: Xid 99");
}

// A log that grows, as /dev/kmsg: what was read for one rank counts for the next one too.
TEST_F(Kernel, EachRecordIsReadOnceAndCountsForEveryRank) {
  const std::string path = testing::TempDir() + "/kernel-log-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  KernelLog log(path);
  EXPECT_TRUE(log.Of(wish_).empty());  // opens it
  UniqueFd kernel(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(kernel);
  const auto write = [&](const std::string& record) {
    ASSERT_EQ(::write(kernel.get(), record.data(), record.size()),
              static_cast<ssize_t>(record.size()));
  };
  wish_.boot_minus_kernel = Millis{1};
  write("6,1,1990000000,-;python[4711]: segfault at 0 ip 00007f in libfoo.so[7f+1]\n");
  EXPECT_EQ(log.Of(wish_).size(), 1u);
  write("6,2,1991000000,-;NVRM: Xid (PCI:0000:C1:00): 79, GPU has fallen off the bus.\n");
  EXPECT_EQ(log.Of(wish_).size(), 2u);
  wish_.pid = 4712;
  EXPECT_EQ(log.Of(wish_).size(), 1u);
  ::unlink(path.c_str());
}

TEST_F(Kernel, OddRecordsAndNoLogAreNothing) {
  KernelLines lines(wish_);
  for (const char* record : {"", ";", "6;NVRM: Xid", "6,1;NVRM: Xid", "6,1,x,-;NVRM: Xid", "6,1,2"})
    lines.Add(record);
  EXPECT_TRUE(lines.Take().empty());
  EXPECT_TRUE(KernelLog("/nonexistent/kmsg").Of(wish_).empty());
}

}  // namespace
}  // namespace launch::agent
