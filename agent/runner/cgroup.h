// Control groups of this node's allocations: what the host offers, and one allocation's subtree.
//
//   <kill root>/J.N/shims          the shims, spared by the last kill
//   <kill root>/J.N/ranks          memory limit of the allocation
//   <kill root>/J.N/ranks/R        one rank and whatever it starts
//   <kill root>/J.N/ranks/exec-ID  a user's command beside the ranks
//   <kill root>/probe-ID           what a question to a user's interpreter starts
//
// On hybrid hosts the same tree stands twice: in v2 for killing, in the v1 memory hierarchy for
// limits and evidence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/inventory.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct CgroupHost {
  Containment level = Containment::kTree;
  std::string kill_root;  // our directory of the v2 mount, or of the v1 freezer; empty at kTree
  bool kill_v2 = false;
  std::string memory_root;  // our directory where memory limits work; empty = no limits
  bool memory_v2 = false;
  std::string pids_root;  // our directory where numbers of processes can be limited, or empty
  std::string why;        // why not the level above
  // flock of the kill root; absent: another agent that lives has it, and nothing of it is removed.
  std::shared_ptr<const UniqueFd> claim;
};

struct CgroupWanted {
  std::string name;                 // "launch-<node>-<of its cluster>"
  std::optional<Containment> most;  // not above this level
  std::string v2_parent;            // below which ours is made; empty = found
};

// Makes the agent's roots. Never fails: what cannot be used lowers the level, with the reason.
CgroupHost SetUpCgroups(const CgroupWanted& wanted);

// Tries again to claim the roots, where another agent had the claim, or removed them, and has
// ended.
CgroupHost ClaimAgain(const CgroupWanted& wanted, CgroupHost host);

// To call when the agent ends: removes its roots, unless something of an allocation is still in
// them or another agent uses them.
void RemoveEmptyRoots(const CgroupHost& host);

// The groups that one of these processes of an attempt is in, whichever agent made them; absent:
// none of them is in any. `own` are ours, whose memory groups stand beside the others.
std::optional<CgroupHost> CgroupsOfProcesses(const CgroupHost& own, const std::vector<int>& pids,
                                             const Key& key);

struct MemoryFacts {
  std::uint64_t oom_kills = 0;
  std::uint64_t limit_bytes = 0;  // of the allocation; 0 = none
  std::uint64_t peak_bytes = 0;   // of the allocation
};

// One allocation's subtree; a value that owns nothing. At kTree every operation does nothing.
class AllocationCgroup {
 public:
  AllocationCgroup(const CgroupHost& host, const Key& key);

  const CgroupHost& host() const { return host_; }
  Containment level() const { return host_.level; }
  // The group as the kernel's log names it: the last two parts of its path.
  std::string LogName() const;

  Result<void> Create(const std::vector<Rank>& ranks, std::optional<std::uint64_t> memory_limit);
  // Files that a process of one thread joins by writing "0": cgroup.procs of v2, which comes first,
  // tasks of v1, where moving one thread takes no lock of the whole host.
  std::vector<std::string> ShimProcs() const;
  std::vector<std::string> RankProcs(Rank rank) const;

  // A leaf for a user's command beside the ranks, which ends with them. EndExec kills what is in it
  // and takes it away.
  Result<void> CreateExec(const std::string& id) const;
  std::vector<std::string> ExecProcs(const std::string& id) const;
  void KillExec(const std::string& id) const;
  void EndExec(const std::string& id) const;

  bool Exists() const;
  bool RanksPopulated() const;
  bool RankPopulated(Rank rank) const;
  bool ShimsPopulated() const;
  bool AnyPopulated() const { return RanksPopulated() || ShimsPopulated(); }
  std::vector<int> RankMembers(Rank rank) const;
  bool Contains(int pid) const;  // in this allocation's subtree now

  // SIGKILL to every member of all ranks; call again until RanksPopulated() is false.
  void KillRanks() const;
  void KillRank(Rank rank) const;  // the others may still be born
  // An empty group in the place of the rank's, whose processes are killed: from Linux 6.14 on, one
  // that is born into a group that was ever killed gets SIGKILL at once. Waits a little for them.
  Result<void> RemakeRank(Rank rank) const;
  // SIGKILL to every member, the shims too. The last resort.
  void KillAll() const;
  MemoryFacts Memory(Rank rank) const;
  void Remove() const;  // what is empty

 private:
  std::vector<std::string> ProcsBelow(const std::string& below) const;
  std::string Kill(const std::string& below) const;
  std::string Mem(const std::string& below) const;

  CgroupHost host_;
  std::string name_;
};

struct ProbeLimits {
  // Memory limit of the group. An import of torch takes less than a GiB, the test of the network a
  // context for each GPU.
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  std::uint64_t processes = 4096;  // and threads: one for each core
};

// What one program that is run for a user starts, within limits; the end of this kills and removes
// it. At kTree it is no group and nothing is bounded. From any thread, also one that acts as an
// account.
class ProbeCgroup {
 public:
  static Result<std::shared_ptr<const ProbeCgroup>> Make(const CgroupHost& host,
                                                         const ProbeLimits& limits = {});
  ProbeCgroup(const ProbeCgroup&) = delete;
  ProbeCgroup& operator=(const ProbeCgroup&) = delete;
  ~ProbeCgroup();

  const std::vector<std::string>& procs() const { return procs_; }  // as of RankProcs

 private:
  ProbeCgroup() = default;
  bool kill_v2_ = false;
  std::vector<std::string> dirs_;  // that of the kill root first
  std::vector<std::string> procs_;
};

// Removes the probe groups that a killed agent left behind.
void RemoveProbeCgroups(const CgroupHost& host);

// Keys of the subtrees that exist, to find those that have no record.
std::vector<Key> ListCgroups(const CgroupHost& host);

}  // namespace launch::agent
