// The lease of a rank: a timer in boot time that ends it whatever became of the agent.
#pragma once

#include <cstdint>

namespace launch::shim {

// Without Watch there is no lease: timer() is -1 and nothing is ever due. No allocation.
class Lease {
 public:
  enum class Due { kNothing, kTerminate, kKill };

  // Watches a lease until `end_ms`, or what the file `../lease` of `directory` says by then.
  // Returns 0 or an errno.
  int Watch(int directory, std::int64_t end_ms, std::int64_t grace_ms);
  // Takes the first of the cgroup.procs files of the rank; a kernel without cgroup.kill has none.
  void OpenKill(const char* procs);
  int timer() const { return timer_; }
  // Whether ranks may not be started any more.
  bool IsOver(std::int64_t now_ms);
  // The timer is readable. kTerminate once, then kKill again and again until nobody asks.
  Due OnTimer(std::int64_t now_ms);
  // Everything in the rank's cgroup at once, where the kernel can.
  void KillCgroup() const;

 private:
  void Read();
  void Arm(std::int64_t at_ms) const;

  int file_ = -1;
  int timer_ = -1;
  int kill_ = -1;
  std::int64_t end_ms_ = 0;
  std::int64_t grace_ms_ = 0;
  bool over_ = false;
};

}  // namespace launch::shim
