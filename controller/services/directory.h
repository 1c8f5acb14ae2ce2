// What the services must know at once about users, jobs and revoked certificates: a copy of a few
// fields of the committed state, written by the loop, read by every thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/annotated_mutex.h"
#include "common/pki.h"
#include "controller/chunk_store.h"
#include "controller/core/record.h"

namespace launch::controller {

// What ends the streams of a user who is shut out while they are open.
inline Error ShutOut(const UserName& user) {
  return {ErrorCode::kPermissionDenied,
          "the certificates of " + user.value + " were revoked by an operator",
          "join again with a new token", std::nullopt};
}

// Where the store is: stamped on messages and shown by `launch server status`.
struct StorePosition {
  std::uint64_t incarnation = 0;
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  std::uint64_t last_event = 0;
};

// Thread-safe.
class Directory {
 public:
  void Note(const Record& record) LAUNCH_EXCLUDES(mutex_);  // committed
  void SetPosition(const StorePosition& position) LAUNCH_EXCLUDES(mutex_);

  bool IsOperator(const UserName& user) const LAUNCH_EXCLUDES(mutex_);
  std::optional<std::string> WhyDenied(const std::string& serial) const LAUNCH_EXCLUDES(mutex_);
  // Whether the record, which is not noted yet, shuts its user out anew.
  bool ShutsOut(const UserRecord& user) const LAUNCH_EXCLUDES(mutex_);
  // Why the certificate is refused: its serial is revoked, or it was signed before its user was
  // shut out.
  std::optional<std::string> WhyDenied(const CertificateFacts& facts) const LAUNCH_EXCLUDES(mutex_);
  std::optional<UserName> OwnerOf(JobId job) const LAUNCH_EXCLUDES(mutex_);
  // The job's owner; absent unless the node has an allocation of the job that is not released.
  std::optional<UserName> OwnerFor(const NodeId& node, JobId job) const LAUNCH_EXCLUDES(mutex_);
  // Copied directories of jobs that are not done, or ended less than kCopyKept ago: those can be
  // queued again.
  std::set<OwnedSnapshot> SnapshotsInUse(WallTime now) const LAUNCH_EXCLUDES(mutex_);
  StorePosition Position() const LAUNCH_EXCLUDES(mutex_);
  std::uint64_t Jobs() const LAUNCH_EXCLUDES(mutex_);
  std::uint64_t Nodes() const LAUNCH_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  StorePosition position_ LAUNCH_GUARDED_BY(mutex_);
  std::set<UserName> operators_ LAUNCH_GUARDED_BY(mutex_);
  std::map<std::string, std::string> denied_ LAUNCH_GUARDED_BY(mutex_);  // serial -> why
  struct Revoked {
    WallTime until;     // all that was signed until then
    std::string since;  // serial of who was let in afterwards: certificates name whole seconds
  };
  std::map<UserName, Revoked> revoked_ LAUNCH_GUARDED_BY(mutex_);
  std::map<JobId, UserName> owners_ LAUNCH_GUARDED_BY(mutex_);  // of jobs and of arrays
  std::set<JobId> jobs_ LAUNCH_GUARDED_BY(mutex_);
  std::map<JobId, std::string> snapshots_ LAUNCH_GUARDED_BY(mutex_);
  std::map<JobId, WallTime> done_
      LAUNCH_GUARDED_BY(mutex_);  // since when; of those with a snapshot
  std::set<NodeId> nodes_ LAUNCH_GUARDED_BY(mutex_);
  std::set<std::pair<Key, NodeId>> allocs_ LAUNCH_GUARDED_BY(mutex_);  // that are not released
};

}  // namespace launch::controller
