// A user's command beside a rank that runs here: same account, directory, environment, cores and
// limits, and in the attempt's control group, so that the end of the attempt is its end too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/runner/cgroup.h"
#include "common/error.h"
#include "common/exec.h"
#include "common/ids.h"
#include "common/launch.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct CopyPlace;

struct ExecPlace {
  std::string attempt_dir;
  CgroupHost cgroups;
  Key key;
  Rank rank = 0;
  std::string id;  // of the session; unique
  std::optional<ContainerSpec> container;
};

// Used by one thread, but for Resize.
class ExecProcess {
 public:
  // Says which step failed and why; the hint is of the kind that people act on.
  static Result<ExecProcess> Start(const ExecPlace& place, const ExecCommand& command);
  ExecProcess(ExecProcess&&) = default;
  ExecProcess& operator=(ExecProcess&&) = default;
  ~ExecProcess();  // ends whatever the command left in its control group

  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  // Non-blocking. With a terminal `in` and `out` are its one other end, and there is no `err`.
  int in() const { return terminal_ ? terminal_.get() : in_.get(); }
  int out() const { return terminal_ ? terminal_.get() : out_.get(); }
  int err() const { return err_.get(); }
  void CloseIn();  // of a terminal: what its user would do, the end-of-file character
  void Resize(const TerminalSize& size) const;
  void Signal(int signal) const;  // to its process group
  // Kills everything of the session; at containment level `tree` its process group only.
  void Kill() const;
  // Once pidfd is readable: how it ended. What it left behind is ended as well.
  ExecEnd Reap();

 private:
  friend Result<ExecProcess> ReadCopy(const CopyPlace& place, const std::string& path);

  ExecProcess() = default;
  // Makes the child's three standard streams, in the order of their numbers; their descriptors are
  // above all that it is given.
  Result<void> MakePipes(UniqueFd (&stdio)[3]);
  Result<void> Watch(int pid);  // ends it when it cannot be watched

  ExecPlace place_;
  int pid_ = -1;
  bool reaped_ = false;
  UniqueFd pidfd_;  // of the one that owns the process
  UniqueFd terminal_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
};

}  // namespace launch::agent
