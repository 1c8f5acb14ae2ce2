#include "agent/runner/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <thread>

#include "agent/account/acting_as.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/cgroup_mounts.h"
#include "agent/runner/process.h"
#include "agent/runner/small_files.h"
#include "common/clock.h"
#include "common/flat_keyed.h"
#include "common/pki.h"
#include "common/text.h"
#include "common/unique_fd.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

int WriteText(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0
                                                                                          : errno;
}

bool MakeDir(const std::string& path) {
  return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

bool IsFile(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::uint64_t ReadNumber(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  return in >> value ? value : 0;
}

// 0: the file does not have it.
std::uint64_t ReadKeyed(const std::string& path, const std::string& name) {
  return FlatKeyed(ReadText(path), name).value_or(0);
}

// A process's path in a hierarchy: "" = v2, else a v1 controller. Starts with '/'.
std::string PathOf(const std::string& process, const std::string& controller) {
  std::ifstream in("/proc/" + process + "/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool match = (controller.empty() && names.empty()) ||
                       std::ranges::count(Split(names, ','), controller) > 0;
    if (match) return line.substr(second + 1);
  }
  return "/";
}

std::string OwnPath(const std::string& controller) { return PathOf("self", controller); }

std::string Join(const std::string& mount, const std::string& path) {
  return path == "/" ? mount : mount + path;
}

bool HasController(const std::string& dir, const std::string& name) {
  std::stringstream list(ReadText(dir + "/cgroup.controllers"));
  for (std::string word; list >> word;) {
    if (word == name) return true;
  }
  return false;
}

// To the groups below, as far as it has them. Each alone: one that is missing spoils a list.
void HandOn(const std::string& dir) {
  for (const char* controller : {"+memory", "+pids"})
    (void)WriteText(dir + "/cgroup.subtree_control", controller);
}

// A new child must be able to hold processes and to be killed: tried, not guessed.
std::string TryV2(const std::string& parent, const std::string& name, std::string& why) {
  const std::string launch = parent + "/launch";
  HandOn(parent);
  if (!MakeDir(launch)) {
    why = "cannot make " + launch + ": " + ErrnoError("mkdir", errno).message;
    return {};
  }
  HandOn(launch);
  const std::string root = launch + "/" + name;
  if (!MakeDir(root) || !IsFile(root + "/cgroup.procs")) {
    why = "cannot make " + root;
    return {};
  }
  HandOn(root);
  if (::access((root + "/cgroup.procs").c_str(), W_OK) != 0 ||
      ::access((parent + "/cgroup.procs").c_str(), W_OK) != 0) {
    why = "no right to move processes below " + parent;
    return {};
  }
  return root;
}

std::string TryV1(const CgroupMounts& mounts, const std::string& controller,
                  const std::string& name, std::string& why) {
  const auto mount = mounts.v1.find(controller);
  if (mount == mounts.v1.end()) {
    why = "no " + controller + " controller";
    return {};
  }
  const std::string launch = Join(mount->second, OwnPath(controller)) + "/launch";
  const std::string root = launch + "/" + name;
  if (!MakeDir(launch) || !MakeDir(root)) {
    why = "cannot make " + root + ": " + ErrnoError("mkdir", errno).message;
    return {};
  }
  return root;
}

// v1 has no inherited kill: freeze, kill each, thaw, until nobody is left or the tries are used up.
void FreezeAndKill(const std::string& dir);

// A group that was taken away meanwhile has no members: ENODEV of a file that was open then.
bool IsGone(int error_number) { return error_number == ENOENT || error_number == ENODEV; }

// Adds what `file` lists. False: not all of it could be read.
bool AddPids(const std::string& file, std::vector<int>& pids) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return IsGone(errno);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IsGone(errno);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  std::istringstream in(text);
  for (int pid = 0; in >> pid;) pids.push_back(pid);
  return true;
}

struct GroupMembers {
  std::vector<int> pids;
  bool all = true;  // else there may be more: out of descriptors or memory, an error of a disk
};

GroupMembers MembersOf(const std::string& dir) {
  GroupMembers members;
  std::vector<std::string> dirs = {dir};
  std::error_code error;
  fs::recursive_directory_iterator at(dir, error);
  members.all = !error || IsGone(error.value());
  for (const fs::recursive_directory_iterator end; !error && at != end;) {
    std::error_code unknown;  // of one that went meanwhile
    if (at->is_directory(unknown)) dirs.push_back(at->path().string());
    at.increment(error);
    if (error) members.all = false;  // where a group below goes meanwhile, the ones behind it too
  }
  for (const std::string& one : dirs)
    members.all = AddPids(one + "/cgroup.procs", members.pids) && members.all;
  return members;
}

std::vector<int> Members(const std::string& dir) { return MembersOf(dir).pids; }

// Of what cannot be asked nobody knows that it is empty, unless the group is gone.
bool Populated(const std::string& dir, bool v2) {
  if (!v2) {
    const GroupMembers members = MembersOf(dir);
    return !members.all || !members.pids.empty();
  }
  const auto populated = FlatKeyed(ReadText(dir + "/cgroup.events"), "populated");
  return populated ? *populated != 0 : !IsAbsent(dir);
}

void FreezeAndKill(const std::string& dir) {
  (void)WriteText(dir + "/freezer.state", "FROZEN");
  for (const int pid : Members(dir)) {
    // Open first, then ask again whether it is a member: the number alone proves nothing.
    const UniqueFd process = OpenPidFd(pid);
    if (!process) continue;
    const std::vector<int> members = Members(dir);
    if (std::find(members.begin(), members.end(), pid) == members.end()) continue;
    SignalPidFd(process, SIGKILL);
  }
  (void)WriteText(dir + "/freezer.state", "THAWED");
}

void KillDir(const std::string& dir, bool v2) {
  if (v2 && WriteText(dir + "/cgroup.kill", "1") == 0) return;
  if (v2) (void)WriteText(dir + "/cgroup.freeze", "1");
  FreezeAndKill(dir);
  if (v2) (void)WriteText(dir + "/cgroup.freeze", "0");
}

void RemoveBelow(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> below;
  for (fs::recursive_directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_directory(error)) below.push_back(at->path().string());
  }
  std::sort(below.begin(), below.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& path : below) (void)::rmdir(path.c_str());
  (void)::rmdir(dir.c_str());
}

// One process of a rank killed leaves a hung collective: the whole rank goes.
void KillWholeOnOom(const std::string& dir) { (void)WriteText(dir + "/memory.oom.group", "1"); }

constexpr std::string_view kProbe = "probe-";

void KillUntilEmpty(const std::string& dir, bool v2, Millis patience) {
  constexpr Millis kStep{2};
  for (Millis waited{0}; Populated(dir, v2) && waited < patience; waited += kStep) {
    KillDir(dir, v2);
    std::this_thread::sleep_for(kStep);
  }
}

// What does not end at once (a process that waits in the kernel) stays until the agent starts
// again.
void EndProbe(const std::vector<std::string>& dirs, bool kill_v2) {
  constexpr Millis kPatience{1'000};
  KillUntilEmpty(dirs.front(), kill_v2, kPatience);
  for (const std::string& dir : dirs) RemoveBelow(dir);
}

const char* JoinFile(bool v2) { return v2 ? "cgroup.procs" : "tasks"; }

CgroupHost MakeRoots(const CgroupWanted& wanted) {
  CgroupHost host;
  if (wanted.most == Containment::kTree) {
    host.why = "set in the configuration";
    return host;
  }
  const CgroupMounts mounts = FindCgroupMounts();
  std::string memory_why;
  if (wanted.most != Containment::kCgroup1) {
    std::vector<std::string> parents;
    if (!wanted.v2_parent.empty()) {
      parents.push_back(wanted.v2_parent);
    } else if (!mounts.v2.empty()) {
      // The top is kept when the agent's own unit is restarted; below ourselves needs no privilege.
      if (::geteuid() == 0) parents.push_back(mounts.v2);
      const std::string own = Join(mounts.v2, OwnPath(""));
      if (own != mounts.v2 || parents.empty()) parents.push_back(own);
    } else {
      host.why = "no cgroup v2 mount";
    }
    for (const std::string& parent : parents) {
      if (!host.kill_root.empty()) break;
      host.kill_root = TryV2(parent, wanted.name, host.why);
    }
  }
  if (!host.kill_root.empty()) {
    host.level = Containment::kCgroup;
    host.kill_v2 = true;
    host.why.clear();
    std::string pids_why;
    host.pids_root = HasController(host.kill_root, "pids")
                         ? host.kill_root
                         : TryV1(mounts, "pids", wanted.name, pids_why);
    if (HasController(host.kill_root, "memory")) {
      host.memory_root = host.kill_root;
      host.memory_v2 = true;
      return host;
    }
    host.memory_root = TryV1(mounts, "memory", wanted.name, memory_why);
    return host;
  }
  host.kill_root = TryV1(mounts, "freezer", wanted.name, host.why);
  if (host.kill_root.empty()) return host;
  host.level = Containment::kCgroup1;
  host.memory_root = TryV1(mounts, "memory", wanted.name, memory_why);
  host.pids_root = TryV1(mounts, "pids", wanted.name, memory_why);
  return host;
}

// Kept until this process ends; two agents of one node and cluster have the same root. A shim that
// an agent was just spawning when it was killed holds it until execve.
std::shared_ptr<const UniqueFd> Claim(const std::string& root) {
  constexpr int kTries = 20;
  constexpr Millis kPause{50};
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return nullptr;
  for (int i = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK || i == kTries) return nullptr;
    std::this_thread::sleep_for(kPause);
  }
  return std::make_shared<const UniqueFd>(std::move(fd));
}

// Whether the claim is on the directory that is there now.
bool HasItsRoot(const CgroupHost& host) {
  struct stat claimed {};
  struct stat now {};
  return host.claim && ::fstat(host.claim->get(), &claimed) == 0 &&
         ::stat(host.kill_root.c_str(), &now) == 0 && claimed.st_dev == now.st_dev &&
         claimed.st_ino == now.st_ino;
}

// Where the process's group of that hierarchy lies but for "/J.N/shims" or "/J.N/ranks..."; empty:
// it is in none of the attempt. One that this process is in too is of the job that it runs in.
std::string RootOf(const std::string& mount, int pid, const std::string& controller,
                   const std::string& name) {
  if (mount.empty()) return {};
  const std::string path = PathOf(std::to_string(pid), controller);
  const std::size_t at = path.rfind(name + "/");
  if (at == std::string::npos) return {};
  const std::string_view below = std::string_view(path).substr(at + name.size() + 1);
  if (!below.starts_with("shims") && !below.starts_with("ranks")) return {};
  if ((OwnPath(controller) + "/").starts_with(path.substr(0, at) + name + "/")) return {};
  const std::string root = mount + path.substr(0, at);
  return IsFile(root + name + "/cgroup.procs") ? root : std::string();
}

}  // namespace

void RemoveEmptyRoots(const CgroupHost& host) {
  if (!host.claim) return;
  for (const std::string& root : {host.kill_root, host.memory_root, host.pids_root}) {
    if (!root.empty()) (void)::rmdir(root.c_str());
  }
}

std::optional<CgroupHost> CgroupsOfProcesses(const CgroupHost& own, const std::vector<int>& pids,
                                             const Key& key) {
  const CgroupMounts mounts = FindCgroupMounts();
  const auto freezer = mounts.v1.find("freezer");
  const std::string name = "/" + ToString(key);
  std::optional<CgroupHost> found;
  for (const int pid : pids) {
    CgroupHost host{.level = Containment::kCgroup,
                    .kill_root = RootOf(mounts.v2, pid, "", name),
                    .kill_v2 = true};
    if (host.kill_root.empty() && freezer != mounts.v1.end()) {
      host = {.level = Containment::kCgroup1,
              .kill_root = RootOf(freezer->second, pid, "freezer", name)};
    }
    // A job may make groups below its own, of any name: the uppermost is its whole.
    const bool above = !found || host.kill_root.size() < found->kill_root.size();
    if (!host.kill_root.empty() && above) found = std::move(host);
  }
  if (!found) return found;
  if (found->kill_v2 && HasController(found->kill_root, "memory")) {
    found->memory_root = found->kill_root;
    found->memory_v2 = true;
  } else if (!own.memory_root.empty()) {
    const std::string beside = fs::path(own.memory_root).parent_path().string() + "/" +
                               fs::path(found->kill_root).filename().string();
    if (IsFile(beside + name)) found->memory_root = beside;
  }
  return found;
}

CgroupHost SetUpCgroups(const CgroupWanted& wanted) {
  CgroupHost host = MakeRoots(wanted);
  if (!host.kill_root.empty()) host.claim = Claim(host.kill_root);
  return host;
}

CgroupHost ClaimAgain(const CgroupWanted& wanted, CgroupHost host) {
  if (host.kill_root.empty() || HasItsRoot(host)) return host;
  host.claim.reset();
  return SetUpCgroups(wanted);
}

AllocationCgroup::AllocationCgroup(const CgroupHost& host, const Key& key)
    : host_(host), name_("/" + ToString(key)) {}

std::string AllocationCgroup::LogName() const {
  if (host_.level == Containment::kTree) return {};
  return fs::path(host_.kill_root).filename().string() + name_;
}

std::string AllocationCgroup::Kill(const std::string& below) const {
  return host_.kill_root + name_ + below;
}

std::string AllocationCgroup::Mem(const std::string& below) const {
  return host_.memory_root + name_ + below;
}

Result<void> AllocationCgroup::Create(const std::vector<Rank>& ranks,
                                      std::optional<std::uint64_t> memory_limit) {
  if (host_.level == Containment::kTree) return {};
  (void)MakeDir(host_.kill_root);  // it goes with the last agent that used it
  std::vector<std::string> dirs = {"", "/shims", "/ranks"};
  for (const Rank rank : ranks) dirs.push_back("/ranks/" + std::to_string(rank));
  const bool apart = !host_.memory_root.empty() && host_.memory_root != host_.kill_root;
  for (const std::string& dir : dirs) {
    if (!MakeDir(Kill(dir))) return FailErrno("mkdir " + Kill(dir), errno);
    const bool parent = dir.empty() || dir == "/ranks";
    if (host_.memory_v2 && parent) {
      (void)WriteText(Kill(dir) + "/cgroup.subtree_control", "+memory");
    }
    if (apart && dir != "/shims" && !MakeDir(Mem(dir))) {
      return FailErrno("mkdir " + Mem(dir), errno);
    }
  }
  if (host_.memory_root.empty()) return {};
  if (host_.memory_v2) {
    for (const Rank rank : ranks) KillWholeOnOom(Mem("/ranks/" + std::to_string(rank)));
  }
  if (memory_limit) {
    const std::string file =
        Mem("/ranks") + (host_.memory_v2 ? "/memory.max" : "/memory.limit_in_bytes");
    if (const int error_number = WriteText(file, std::to_string(*memory_limit));
        error_number != 0) {
      return FailErrno("write " + file, error_number);
    }
  }
  return {};
}

std::vector<std::string> AllocationCgroup::ShimProcs() const {
  if (host_.level == Containment::kTree) return {};
  return {Kill(std::string("/shims/") + JoinFile(host_.kill_v2))};
}

std::vector<std::string> AllocationCgroup::RankProcs(Rank rank) const {
  return ProcsBelow("/ranks/" + std::to_string(rank) + "/");
}

std::vector<std::string> AllocationCgroup::ProcsBelow(const std::string& below) const {
  if (host_.level == Containment::kTree) return {};
  std::vector<std::string> files = {Kill(below + JoinFile(host_.kill_v2))};
  if (!host_.memory_root.empty() && host_.memory_root != host_.kill_root) {
    files.push_back(Mem(below + JoinFile(host_.memory_v2)));
  }
  return files;
}

Result<void> AllocationCgroup::CreateExec(const std::string& id) const {
  if (host_.level == Containment::kTree) return {};
  const std::string below = "/ranks/exec-" + id;
  if (!MakeDir(Kill(below))) return FailErrno("mkdir " + Kill(below), errno);
  const bool apart = !host_.memory_root.empty() && host_.memory_root != host_.kill_root;
  if (apart && !MakeDir(Mem(below))) return FailErrno("mkdir " + Mem(below), errno);
  return {};
}

std::vector<std::string> AllocationCgroup::ExecProcs(const std::string& id) const {
  return ProcsBelow("/ranks/exec-" + id + "/");
}

void AllocationCgroup::KillExec(const std::string& id) const {
  if (Exists()) KillDir(Kill("/ranks/exec-" + id), host_.kill_v2);
}

// What is not empty yet goes with the allocation.
void AllocationCgroup::EndExec(const std::string& id) const {
  if (host_.level == Containment::kTree) return;
  KillExec(id);
  RemoveBelow(Kill("/ranks/exec-" + id));
  if (!host_.memory_root.empty() && host_.memory_root != host_.kill_root) {
    RemoveBelow(Mem("/ranks/exec-" + id));
  }
}

bool AllocationCgroup::Exists() const {
  return host_.level != Containment::kTree && !IsAbsent(Kill(""));
}

bool AllocationCgroup::RanksPopulated() const {
  return Exists() && Populated(Kill("/ranks"), host_.kill_v2);
}

bool AllocationCgroup::RankPopulated(Rank rank) const {
  return Exists() && Populated(Kill("/ranks/" + std::to_string(rank)), host_.kill_v2);
}

bool AllocationCgroup::ShimsPopulated() const {
  return Exists() && Populated(Kill("/shims"), host_.kill_v2);
}

std::vector<int> AllocationCgroup::RankMembers(Rank rank) const {
  return Exists() ? Members(Kill("/ranks/" + std::to_string(rank))) : std::vector<int>();
}

bool AllocationCgroup::Contains(int pid) const {
  if (!Exists()) return false;
  const std::vector<int> members = Members(Kill(""));
  return std::find(members.begin(), members.end(), pid) != members.end();
}

void AllocationCgroup::KillRanks() const {
  if (!Exists()) return;
  if (host_.kill_v2) return KillDir(Kill("/ranks"), true);
  // Freezer states do not cover members of child groups of every kernel: one by one.
  std::error_code error;
  for (fs::directory_iterator at(Kill("/ranks"), error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_directory(error)) KillDir(at->path().string(), false);
  }
}

void AllocationCgroup::KillRank(Rank rank) const {
  if (Exists()) KillDir(Kill("/ranks/" + std::to_string(rank)), host_.kill_v2);
}

Result<void> AllocationCgroup::RemakeRank(Rank rank) const {
  if (!Exists()) return {};
  constexpr Millis kPatience{5'000};
  const std::string below = "/ranks/" + std::to_string(rank);
  const std::string dir = Kill(below);
  KillUntilEmpty(dir, host_.kill_v2, kPatience);
  RemoveBelow(dir);
  if (IsFile(dir))
    return Fail(ErrorCode::kUnavailable, "processes in " + dir + " have not ended after SIGKILL");
  if (!MakeDir(dir)) return FailErrno("mkdir " + dir, errno);
  if (host_.memory_v2) KillWholeOnOom(Mem(below));
  return {};
}

void AllocationCgroup::KillAll() const {
  if (!Exists()) return;
  KillRanks();
  KillDir(Kill("/shims"), host_.kill_v2);
}

MemoryFacts AllocationCgroup::Memory(Rank rank) const {
  MemoryFacts facts;
  if (host_.memory_root.empty()) return facts;
  const std::string own = Mem("/ranks/" + std::to_string(rank));
  const std::string all = Mem("/ranks");
  if (host_.memory_v2) {
    facts.oom_kills = ReadKeyed(own + "/memory.events", "oom_kill");
    facts.limit_bytes = ReadNumber(all + "/memory.max");  // "max" reads as 0
    facts.peak_bytes = ReadNumber(all + "/memory.peak");
  } else {
    facts.oom_kills = ReadKeyed(own + "/memory.oom_control", "oom_kill");
    facts.limit_bytes = ReadNumber(all + "/memory.limit_in_bytes");
    facts.peak_bytes = ReadNumber(all + "/memory.max_usage_in_bytes");
    constexpr std::uint64_t kUnset = std::uint64_t{1} << 60;  // v1 writes a huge number for none
    if (facts.limit_bytes >= kUnset) facts.limit_bytes = 0;
  }
  return facts;
}

void AllocationCgroup::Remove() const {
  if (host_.level == Containment::kTree) return;
  RemoveBelow(Kill(""));
  if (!host_.memory_root.empty() && host_.memory_root != host_.kill_root) RemoveBelow(Mem(""));
}

Result<std::shared_ptr<const ProbeCgroup>> ProbeCgroup::Make(const CgroupHost& host,
                                                             const ProbeLimits& limits) {
  const ActingAsSelf self;
  const std::shared_ptr<ProbeCgroup> made(new ProbeCgroup());
  if (host.level == Containment::kTree) return std::shared_ptr<const ProbeCgroup>(made);
  made->kill_v2_ = host.kill_v2;
  const std::string name = std::string(kProbe) + RandomHex(8);
  const std::string memory =
      host.memory_root.empty() ? host.memory_root : host.memory_root + "/" + name;
  const std::string pids = host.pids_root.empty() ? host.pids_root : host.pids_root + "/" + name;
  for (const std::string& dir : {host.kill_root + "/" + name, memory, pids}) {
    if (dir.empty() || std::ranges::find(made->dirs_, dir) != made->dirs_.end()) continue;
    if (!MakeDir(dir)) return FailErrno("mkdir " + dir, errno);
    made->dirs_.push_back(dir);
    const bool v2 = IsFile(dir + "/cgroup.events");
    made->procs_.push_back(dir + "/" + JoinFile(v2));
  }
  const auto limit = [](const std::string& dir, const char* file,
                        std::uint64_t most) -> Result<void> {
    // A controller that a group has may still not be handed on to those below it.
    if (dir.empty() || !IsFile(dir + file)) return {};
    const int error_number = WriteText(dir + file, std::to_string(most));
    if (error_number != 0) return FailErrno("write " + dir + file, error_number);
    return {};
  };
  const char* of_memory = host.memory_v2 ? "/memory.max" : "/memory.limit_in_bytes";
  LAUNCH_RETURN_IF_ERROR(limit(memory, of_memory, limits.memory_bytes));
  LAUNCH_RETURN_IF_ERROR(limit(pids, "/pids.max", limits.processes));
  return std::shared_ptr<const ProbeCgroup>(made);
}

ProbeCgroup::~ProbeCgroup() {
  if (dirs_.empty()) return;
  const ActingAsSelf self;
  EndProbe(dirs_, kill_v2_);
}

void RemoveProbeCgroups(const CgroupHost& host) {
  if (host.level == Containment::kTree || !host.claim) return;
  std::map<std::string, std::vector<std::string>> found;  // by name, that of the kill root first
  for (const std::string& root : {host.kill_root, host.memory_root, host.pids_root}) {
    std::error_code error;
    for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with(kProbe)) found[name].push_back(at->path().string());
    }
  }
  for (const auto& [name, dirs] : found) KillDir(dirs.front(), host.kill_v2);
  for (const auto& [name, dirs] : found) EndProbe(dirs, host.kill_v2);
}

std::vector<Key> ListCgroups(const CgroupHost& host) {
  std::vector<Key> keys;
  if (host.level == Containment::kTree) return keys;
  std::error_code error;
  for (fs::directory_iterator at(host.kill_root, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_directory(error)) continue;
    if (const auto key = ParseKey(at->path().filename().string())) keys.push_back(*key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace launch::agent
