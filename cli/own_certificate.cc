#include "cli/own_certificate.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>

#include "common/pki.h"
#include "common/unique_fd.h"
#include "proto/renewal_call.h"

namespace launch {
namespace {

constexpr std::chrono::seconds kRenewal{3};

// The controller's own directory is renewed by the controller.
bool IsControllers(const std::string& dir) {
  std::error_code ignored;
  const auto whole = std::filesystem::absolute(dir, ignored).lexically_normal();
  return std::filesystem::exists(whole.parent_path() / "ca.key", ignored) ||
         std::filesystem::exists(whole / ".." / "ca.key", ignored);
}

}  // namespace

Result<CredentialFiles> OpenCredentials(const std::string& dir, WallTime now) {
  // gRPC takes missing or broken files without a word and then fails every handshake.
  PosixFileSystem files;
  auto own = ReadCredentials(files, std::filesystem::absolute(dir).string());
  if (!own)
    return Fail(ErrorCode::kUnavailable, "no usable credentials: " + own.error().message,
                "join the cluster with `launch login`, or name the directory with --credentials");
  const auto facts = ReadCertificate(own->certificate_pem);
  if (!facts || facts->identity.role != "user") return own;
  if (facts->not_after >= now) return own;  // the rest is for the handshake to find
  const auto over = CheckIssued(Certificate{own->certificate_pem}, Certificate{own->ca_pem}, now);
  if (!over)
    return Fail(ErrorCode::kPermissionDenied, dir + ": " + over.error().message,
                "where `launch up` made the cluster: `launch up` again brings a fresh one; else an "
                "operator's `launch token create --user NAME`, then `launch login`");
  return own;
}

void RenewWhenDue(const std::string& dir, const CredentialFiles& own,
                  const std::shared_ptr<grpc::Channel>& channel, WallTime now) {
  const auto facts = ReadCertificate(own.certificate_pem);
  if (!facts || facts->identity.role != "user" || now < RenewalOf(*facts) || IsControllers(dir))
    return;
  const std::string whole = std::filesystem::absolute(dir).string();
  // One command at a time: two pairs must not mix.
  const UniqueFd lock(
      ::open((whole + "/renew.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  PosixFileSystem files;
  // Another command may have been faster.
  if (const auto there = ReadCredentials(files, whole);
      !there || there->certificate_pem != own.certificate_pem)
    return;
  if (const auto fresh = AskForRenewal(channel, facts->identity, kRenewal)) {
    (void)WriteCredentials(files, whole, *fresh);
  }
}

}  // namespace launch
