#include "common/credential_files.h"

#include <optional>

#include "common/pki.h"

namespace launch {
namespace {

constexpr std::size_t kMostBytes = 256 * 1024;

// The certificate of the key that is about to be written: what makes three files change as one.
std::string NextCertificate(const std::string& dir) { return dir + "/cert.next.pem"; }

Result<void> CheckFit(const std::string& key_pem, const std::string& certificate_pem) {
  return CheckPair(KeyPair{key_pem}, Certificate{certificate_pem});
}

}  // namespace

Result<CredentialFiles> ReadCredentials(FileSystem& files, const std::string& dir) {
  CredentialFiles read;
  LAUNCH_ASSIGN_OR_RETURN(read.ca_pem, files.Read(dir + "/ca.pem", kMostBytes));
  std::string why;
  // A second round for a writer that ended between two of our reads.
  for (int round = 0; round < 2; ++round) {
    LAUNCH_ASSIGN_OR_RETURN(read.certificate_pem, files.Read(dir + "/cert.pem", kMostBytes));
    LAUNCH_ASSIGN_OR_RETURN(read.key_pem, files.Read(dir + "/key.pem", kMostBytes));
    const auto paired = CheckFit(read.key_pem, read.certificate_pem);
    if (paired) return read;
    why = paired.error().message;
    const auto next = files.Read(NextCertificate(dir), kMostBytes);
    if (!next || !CheckFit(read.key_pem, *next)) continue;
    read.certificate_pem = *next;
    return read;
  }
  return Fail(ErrorCode::kFailedPrecondition,
              dir + ": key.pem and cert.pem do not belong together: " + why);
}

Result<void> WriteCredentials(FileSystem& files, const std::string& dir,
                              const CredentialFiles& credentials) {
  // Until the key is there, the old pair is whole; from then on the next certificate fits.
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(NextCertificate(dir), credentials.certificate_pem));
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(dir + "/ca.pem", credentials.ca_pem));
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(dir + "/key.pem", credentials.key_pem));
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(dir + "/cert.pem", credentials.certificate_pem));
  return files.RemoveTree(NextCertificate(dir));
}

}  // namespace launch
