// Processes by pidfd and /proc: identity that survives reuse of numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace launch::agent {

UniqueFd OpenPidFd(int pid);  // close-on-exec; empty when there is no such process
void SignalPidFd(const UniqueFd& process, int signal);
bool HasEnded(const UniqueFd& process);  // without reaping it

// Field 22 of /proc/PID/stat; 0 = no such process.
std::uint64_t StartTicksOf(int pid);

// Whether processes of this user can be an allocation's; none = of any. A user can make one of
// somebody else's hold a lock, by sending it the descriptor.
using MayBeOwn = std::function<bool(std::uint32_t uid)>;

// Whether what descends from a process that holds the lock is an allocation's, too, where that
// process is of one of these users or, as its supervisors are, of this process's.
enum class Holders { kAlone, kLead };

// Containment level `tree`: processes that hold `lock_path` open, the `roots` (supervisors, and
// ranks whose supervisor is gone), what descends from them, and what carries kExecMark of the
// lock's directory. Zombies and this process are left out. The environment of a rank proves
// nothing: users paste it into their shells. So what a rank started that has closed the lock and
// lost every parent is not found at this level. In ascending order; no file that is not the
// allocation's is waited for, as one whose file server is gone.
std::vector<int> FindOwn(const std::string& lock_path, const std::vector<int>& roots,
                         const MayBeOwn& may = {}, Holders holders = Holders::kAlone);

// SIGKILL to each of FindOwn but `spare`, each checked again behind its pidfd.
void KillOwn(const std::string& lock_path, const std::vector<int>& roots,
             const std::vector<int>& spare, const MayBeOwn& may = {},
             Holders holders = Holders::kAlone);

// Whether the process runs as this user, or was started by it.
bool IsOfUser(int pid, std::uint32_t uid);

// The process and all that descend from it, parents before children; empty: there is none.
std::vector<int> FamilyOf(int pid);

// Does this process hold `path` open?
bool HoldsOpen(int pid, const std::string& path);

// Whether the kernel keeps from this process which files that one has open, as of one that cannot
// be dumped: that HoldsOpen is false of it proves nothing then. False also where it is gone.
bool HidesFiles(int pid);

// Files below `directory`, also those that are deleted by now, and the processes that hold each
// open.
std::map<std::string, std::vector<int>> OpenBelow(const std::string& directory);

}  // namespace launch::agent
