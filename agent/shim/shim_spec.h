// What a shim is told, as one sealed memory file: argv, environment with secrets, ids, limits.
// EncodeSpec runs in the agent; OpenSpec in the shim, which allocates nothing afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/shim/shim_record.h"

namespace launch::shim {

inline constexpr std::uint64_t kLeaveLimit = ~std::uint64_t{0};  // do not touch
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0} - 1;
inline constexpr int kMaxCpus = 4096;
inline constexpr int kMaxGroups = 1024;
inline constexpr std::uint32_t kLeaveUmask = ~std::uint32_t{0};

enum SpecFlags : std::uint32_t {
  kSwitchIds = 1u << 0,
  kNoNewPrivs = 1u << 1,
  kBindCpus = 1u << 2,
  kShimKeepsLocks = 1u << 3,  // the rank inherits none: its control group tells what belongs to it
};

// Version of the layout below: raised with every change of it, so that an agent and a shim of two
// versions do not understand each other by chance. Records on disk have a version of their own.
inline constexpr std::uint32_t kSpecVersion = 3;

// Followed by NUL-terminated strings: cwd, shim cgroup.procs files, rank cgroup.procs files, argv,
// environment ("NAME=value").
struct SpecBlock {
  Header header;  // length and crc cover everything after it
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::uint32_t flags = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t umask = kLeaveUmask;
  std::uint32_t group_count = 0;
  std::uint32_t groups[kMaxGroups] = {};
  std::uint64_t nofile = kLeaveLimit;
  std::uint64_t memlock = kLeaveLimit;
  std::uint64_t core = kLeaveLimit;
  std::uint8_t cpus[kMaxCpus / 8] = {};
  std::uint32_t shim_cgroups = 0;
  std::uint32_t rank_cgroups = 0;
  std::uint32_t argc = 0;
  std::uint32_t envc = 0;
  std::uint32_t locks = 0;
  std::uint32_t ports = 0;
  std::int64_t lease_end_ms = 0;  // boot time, unless `lease` says later; 0 = no lease
  std::int64_t lease_grace_ms = 0;
};

// The agent's side.
struct ShimSpec {
  SpecBlock block;
  std::string cwd;
  std::vector<std::string> shim_cgroups;
  std::vector<std::string> rank_cgroups;
  std::vector<std::string> argv;
  std::vector<std::string> env;
};
std::string EncodeSpec(const ShimSpec& spec);

// The shim's side: pointers into the mapped file. `argv` and `env` end with a null pointer.
struct SpecView {
  SpecBlock* block = nullptr;
  std::uint64_t mapped_bytes = 0;
  char** table = nullptr;  // owner of all the lists below
  const char* cwd = nullptr;
  char** shim_cgroups = nullptr;
  char** rank_cgroups = nullptr;
  char** argv = nullptr;
  char** env = nullptr;
};

// 0, or an errno: EBADMSG when the file does not hold a spec, EPROTONOSUPPORT when it holds one of
// another version. Maps the file and allocates the
// pointer table, the last allocation of a shim's life.
int OpenSpec(int fd, SpecView& view);

// Overwrites and gives back everything; also what a failed OpenSpec left. The view is empty then.
void CloseSpec(SpecView& view);

}  // namespace launch::shim
