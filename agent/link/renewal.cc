#include "agent/link/renewal.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/renewal_call.h"

namespace launch::agent {
namespace {

constexpr std::chrono::seconds kCallDeadline{10};
constexpr Millis kShortestPause{1'000};
constexpr Millis kLongestPause{3'600'000};

}  // namespace

Renewal::Renewal(FileSystem& files, std::string state_dir, const IdentityFiles& identity)
    : files_(files), state_dir_(std::move(state_dir)), next_(WallTime::max()) {
  const auto facts = ReadCertificate(identity.certificate_pem);
  if (!facts) return;  // what cannot be read is never due: the handshake tells
  own_ = facts->identity;
  next_ = RenewalOf(*facts);
  const auto left = std::chrono::duration_cast<Millis>(facts->not_after - next_);
  patience_ = std::clamp(left / 20, kShortestPause, kLongestPause);
}

Result<void> Renewal::Renew(const std::shared_ptr<grpc::Channel>& channel, WallTime now) {
  next_ = now + patience_;
  LAUNCH_ASSIGN_OR_RETURN(const IdentityFiles fresh, AskForRenewal(channel, own_, kCallDeadline));
  LAUNCH_RETURN_IF_ERROR(WriteIdentity(files_, state_dir_, fresh));
  next_ = WallTime::max();
  return {};
}

}  // namespace launch::agent
