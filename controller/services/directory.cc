#include "controller/services/directory.h"

#include "common/snapshot.h"

namespace launch::controller {

void Directory::Note(const Record& record) {
  const MutexLock lock(mutex_);
  if (const auto* gone = std::get_if<Delete>(&record)) {
    if (const auto job = job_keys_.find(gone->key); job != job_keys_.end()) {
      owners_.erase(job->second);
      snapshots_.erase(job->second);
      done_.erase(job->second);
      job_keys_.erase(job);
    }
    node_keys_.erase(gone->key);
    constexpr std::string_view kDeny = "deny/";
    if (gone->key.starts_with(kDeny)) denied_.erase(gone->key.substr(kDeny.size()));
    constexpr std::string_view kUser = "user/";
    if (gone->key.starts_with(kUser)) operators_.erase(UserName{gone->key.substr(kUser.size())});
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
    if (owners_.emplace(job->id, job->owner).second) job_keys_[KeyOf(put->entity)] = job->id;
    if (job->array) owners_.emplace(*job->array, job->owner);
    if (job->phase != JobPhase::kDone) {
      done_.erase(job->id);
    } else if (snapshots_.contains(job->id)) {
      done_[job->id] = job->ended;
    }
  } else if (const auto* spec = std::get_if<SpecRecord>(&put->entity)) {
    if (!spec->context.snapshot.empty()) snapshots_[spec->id] = spec->context.snapshot;
  } else if (std::holds_alternative<NodeRecord>(put->entity)) {
    node_keys_.insert(KeyOf(put->entity));
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
  return job_keys_.size();
}

std::uint64_t Directory::Nodes() const {
  const MutexLock lock(mutex_);
  return node_keys_.size();
}

}  // namespace launch::controller
