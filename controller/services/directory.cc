#include "controller/services/directory.h"

#include <algorithm>

#include "common/snapshot.h"
#include "controller/core/state.h"

namespace launch::controller {

void Directory::Note(const Record& record) {
  const MutexLock lock(mutex_);
  if (const auto* gone = std::get_if<Delete>(&record)) {
    if (const auto* job = std::get_if<JobRecord>(&gone->entity)) {
      jobs_.erase(job->id);
      owners_.erase(job->id);
      snapshots_.erase(job->id);
      done_.erase(job->id);
    } else if (const auto* alloc = std::get_if<AllocRecord>(&gone->entity)) {
      allocs_.erase({alloc->key, alloc->node});
    } else if (const auto* node = std::get_if<NodeRecord>(&gone->entity)) {
      nodes_.erase(node->id);
    } else if (const auto* deny = std::get_if<DenyRecord>(&gone->entity)) {
      denied_.erase(deny->serial);
    } else if (const auto* user = std::get_if<UserRecord>(&gone->entity)) {
      operators_.erase(user->name);
    }
    return;
  }
  const auto* put = std::get_if<Put>(&record);
  if (put == nullptr) return;
  if (const auto* user = std::get_if<UserRecord>(&put->entity)) {
    if (user->is_operator) {
      operators_.insert(user->name);
    } else {
      operators_.erase(user->name);
    }
    if (user->revoked != WallTime{}) {
      revoked_[user->name] = {user->revoked, user->certificate_serial};
    }
  } else if (const auto* deny = std::get_if<DenyRecord>(&put->entity)) {
    denied_[deny->serial] = deny->why;
  } else if (const auto* job = std::get_if<JobRecord>(&put->entity)) {
    jobs_.insert(job->id);
    owners_.emplace(job->id, job->owner);
    if (job->array) owners_.emplace(*job->array, job->owner);
    if (job->phase != JobPhase::kDone) {
      done_.erase(job->id);
    } else if (snapshots_.contains(job->id)) {
      done_[job->id] = job->ended;
    }
  } else if (const auto* spec = std::get_if<SpecRecord>(&put->entity)) {
    if (!spec->context.snapshot.empty()) snapshots_[spec->id] = spec->context.snapshot;
  } else if (const auto* node = std::get_if<NodeRecord>(&put->entity)) {
    nodes_.insert(node->id);
  } else if (const auto* alloc = std::get_if<AllocRecord>(&put->entity)) {
    if (IsReleased(*alloc)) {
      allocs_.erase({alloc->key, alloc->node});
    } else {
      allocs_.emplace(alloc->key, alloc->node);
    }
  }
}

void Directory::SetPosition(const StorePosition& position) {
  const MutexLock lock(mutex_);
  position_ = position;
}

bool Directory::IsOperator(const UserName& user) const {
  const MutexLock lock(mutex_);
  return operators_.contains(user);
}

std::optional<std::string> Directory::WhyDenied(const std::string& serial) const {
  const MutexLock lock(mutex_);
  const auto found = denied_.find(serial);
  if (found == denied_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> Directory::WhyDenied(const CertificateFacts& facts) const {
  if (auto why = WhyDenied(facts.serial)) return why;
  if (facts.identity.role != "user") return std::nullopt;
  const MutexLock lock(mutex_);
  const auto until = revoked_.find(UserName{facts.identity.name});
  if (until == revoked_.end() || SignedAt(facts) > until->second.until) return std::nullopt;
  if (facts.serial == until->second.since) return std::nullopt;
  return "by an operator";
}

bool Directory::ShutsOut(const UserRecord& user) const {
  const MutexLock lock(mutex_);
  const auto known = revoked_.find(user.name);
  return user.revoked != WallTime{} &&
         (known == revoked_.end() || known->second.until != user.revoked);
}

std::optional<UserName> Directory::OwnerOf(JobId job) const {
  const MutexLock lock(mutex_);
  const auto found = owners_.find(job);
  if (found == owners_.end()) return std::nullopt;
  return found->second;
}

std::optional<UserName> Directory::OwnerFor(const NodeId& node, JobId job) const {
  const MutexLock lock(mutex_);
  const auto owner = owners_.find(job);
  if (owner == owners_.end()) return std::nullopt;
  for (auto alloc = allocs_.lower_bound({Key{job, Attempt{0}}, NodeId{}});
       alloc != allocs_.end() && alloc->first.job == job; ++alloc) {
    if (alloc->second == node) return owner->second;
  }
  return std::nullopt;
}

std::set<OwnedSnapshot> Directory::SnapshotsInUse(WallTime now) const {
  const MutexLock lock(mutex_);
  std::set<OwnedSnapshot> snapshots;  // the elements of an array share one
  for (const auto& [job, root] : snapshots_) {
    const auto owner = owners_.find(job);
    const auto done = done_.find(job);
    const bool kept = done == done_.end() || now - done->second < kCopyKept;
    if (owner != owners_.end() && kept) snapshots.insert({owner->second, root});
  }
  return snapshots;
}

StorePosition Directory::Position() const {
  const MutexLock lock(mutex_);
  return position_;
}

std::uint64_t Directory::Jobs() const {
  const MutexLock lock(mutex_);
  return jobs_.size();
}

std::uint64_t Directory::Nodes() const {
  const MutexLock lock(mutex_);
  return nodes_.size();
}

}  // namespace launch::controller
