#include "controller/enrolment.h"

#include <sys/stat.h>

#include <utility>

#include "common/credential_files.h"
#include "common/ids.h"

namespace launch::controller {
namespace {

constexpr Millis kTokenLife{15LL * 60 * 1000};
constexpr std::size_t kPemMax = 64 << 10;
constexpr std::size_t kSealKeyBytes = 32;

bool Exists(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0;
}

std::string FromHex(const std::string& hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

// A fresh key with a certificate for `identity`.
Result<std::pair<KeyPair, Certificate>> Issue(const KeyPair& ca_key, const Certificate& ca,
                                              SignRequest request, WallTime now) {
  LAUNCH_ASSIGN_OR_RETURN(KeyPair key, MakeKey());
  LAUNCH_ASSIGN_OR_RETURN(const std::string csr, MakeCsr(key));
  LAUNCH_ASSIGN_OR_RETURN(Certificate certificate, SignCsr(csr, ca_key, ca, request, now));
  return std::pair(std::move(key), std::move(certificate));
}

SignRequest ControllerRequest(const Credentials& credentials) {
  return {Identity{credentials.cluster, "controller", ""},
          credentials.lives.controller,
          {"launch-controller"},
          NewSerial()};
}

// The second: somebody has shortened the life of certificates since.
bool IsDue(const CertificateFacts& facts, Millis life, WallTime now) {
  return now >= RenewalOf(facts) || facts.not_after > now + life + Millis{1'000};
}

}  // namespace

StatePaths::StatePaths(std::string directory)
    : dir(std::move(directory)),
      ca_certificate(dir + "/ca.pem"),
      ca_key(dir + "/ca.key"),
      controller_certificate(dir + "/controller.pem"),
      controller_key(dir + "/controller.key"),
      secrets_key(dir + "/secrets.key"),
      store(dir + "/store.db"),
      chunks(dir + "/chunks"),
      operator_dir(dir + "/operator"),
      address(dir + "/address"),
      pid(dir + "/pid") {}

Result<InitDone> InitCredentials(FileSystem& files, const StatePaths& paths,
                                 const InitRequest& request) {
  for (const auto& [what, name] :
       {std::pair("cluster name", &request.cluster), std::pair("user name", &request.user)}) {
    if (IsValidName(*name)) continue;
    return Fail(ErrorCode::kInvalidArgument, std::string(what) + " '" + *name + "' is not valid",
                "1-63 characters of a-z, A-Z, 0-9, '.', '_', '-'; not '.' or '-' at the start");
  }
  for (const std::string& path :
       {paths.ca_key, paths.store, paths.secrets_key, paths.controller_key, paths.operator_dir}) {
    if (!Exists(path)) continue;
    return Fail(ErrorCode::kAlreadyExists, "there is a cluster in " + paths.dir + " (" + path + ")",
                Exists(paths.store)
                    ? "start it with `launch-controller run --state " + paths.dir +
                          "`, or choose another directory"
                    : "it has no store: an `init` that did not finish, or a store that was lost; "
                      "put the store back, or remove the directory and make a new cluster");
  }
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(paths.dir));
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(paths.operator_dir));

  InitDone done;
  Credentials& made = done.credentials;
  made.cluster = request.cluster;
  LAUNCH_ASSIGN_OR_RETURN(made.ca_key, MakeKey());
  LAUNCH_ASSIGN_OR_RETURN(made.ca, MakeCa(made.ca_key, made.cluster, request.now));
  LAUNCH_ASSIGN_OR_RETURN(auto controller,
                          Issue(made.ca_key, made.ca, ControllerRequest(made), request.now));
  std::tie(made.key, made.certificate) = std::move(controller);
  made.secrets_key = FromHex(RandomHex(kSealKeyBytes));
  done.operator_serial = NewSerial();
  LAUNCH_ASSIGN_OR_RETURN(const auto first, Issue(made.ca_key, made.ca,
                                                  {Identity{made.cluster, "user", request.user},
                                                   made.lives.member,
                                                   {},
                                                   done.operator_serial},
                                                  request.now));

  for (const auto& [path, bytes] :
       {std::pair(paths.ca_key, made.ca_key.private_pem),
        std::pair(paths.ca_certificate, made.ca.pem),
        std::pair(paths.secrets_key, made.secrets_key),
        std::pair(paths.controller_key, made.key.private_pem),
        std::pair(paths.controller_certificate, made.certificate.pem),
        std::pair(paths.operator_dir + "/ca.pem", made.ca.pem),
        std::pair(paths.operator_dir + "/key.pem", first.first.private_pem),
        std::pair(paths.operator_dir + "/cert.pem", first.second.pem)}) {
    LAUNCH_RETURN_IF_ERROR(files.WriteDurable(path, bytes));
  }
  return done;
}

Result<Credentials> LoadCredentials(FileSystem& files, const StatePaths& paths, WallTime now,
                                    const CertificateLives& lives) {
  if (!Exists(paths.ca_key) && !Exists(paths.store)) {
    return Fail(ErrorCode::kFailedPrecondition, "there is no cluster in " + paths.dir,
                "make one: launch-controller init --state " + paths.dir);
  }
  Credentials loaded;
  loaded.lives = lives;
  for (const auto& [path, into] :
       {std::pair(paths.ca_key, &loaded.ca_key.private_pem),
        std::pair(paths.ca_certificate, &loaded.ca.pem),
        std::pair(paths.secrets_key, &loaded.secrets_key),
        std::pair(paths.controller_key, &loaded.key.private_pem),
        std::pair(paths.controller_certificate, &loaded.certificate.pem)}) {
    LAUNCH_ASSIGN_OR_RETURN(*into, files.Read(path, kPemMax));
  }
  if (loaded.secrets_key.size() != kSealKeyBytes) {
    return Fail(ErrorCode::kDataLoss, paths.secrets_key + " does not hold a key of 32 bytes",
                "put the saved copy of this file back");
  }
  LAUNCH_RETURN_IF_ERROR(CheckPair(loaded.ca_key, loaded.ca));
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(loaded.certificate.pem));
  loaded.cluster = facts.identity.cluster;
  LAUNCH_RETURN_IF_ERROR(RenewController(files, paths, loaded, now));
  // Whatever is wrong with that one must not keep the cluster down: the periodic look names it.
  (void)RenewOperator(files, paths, loaded, now);
  return loaded;
}

Result<bool> RenewController(FileSystem& files, const StatePaths& paths, Credentials& credentials,
                             WallTime now) {
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts,
                          ReadCertificate(credentials.certificate.pem));
  // A crash between the two writes below leaves a pair that does not match.
  const bool pair = CheckPair(credentials.key, credentials.certificate).has_value();
  if (pair && !IsDue(facts, credentials.lives.controller, now)) return false;
  LAUNCH_ASSIGN_OR_RETURN(
      auto fresh, Issue(credentials.ca_key, credentials.ca, ControllerRequest(credentials), now));
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(paths.controller_key, fresh.first.private_pem));
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(paths.controller_certificate, fresh.second.pem));
  std::tie(credentials.key, credentials.certificate) = std::move(fresh);
  return true;
}

Result<bool> RenewOperator(FileSystem& files, const StatePaths& paths,
                           const Credentials& credentials, WallTime now) {
  const auto there = ReadCredentials(files, paths.operator_dir);
  if (!there && there.error().code == ErrorCode::kNotFound) return false;
  if (!there) return Unexpected(there.error());
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(there->certificate_pem));
  if (!IsDue(facts, credentials.lives.member, now)) return false;
  LAUNCH_ASSIGN_OR_RETURN(const auto fresh,
                          Issue(credentials.ca_key, credentials.ca,
                                {facts.identity, credentials.lives.member, {}, NewSerial()}, now));
  LAUNCH_RETURN_IF_ERROR(WriteCredentials(
      files, paths.operator_dir, {credentials.ca.pem, fresh.second.pem, fresh.first.private_pem}));
  return true;
}

Result<Joiner> ParseJoiner(const Identity& identity) {
  const auto colon = identity.name.find(':');
  Joiner joiner{identity.name.substr(0, colon),
                colon == std::string::npos ? "" : identity.name.substr(colon + 1)};
  const bool known = joiner.role == "node" || joiner.role == "user";
  if (identity.role != "join" || !known || !IsValidName(joiner.name)) {
    return Fail(ErrorCode::kPermissionDenied,
                "not the certificate of a join token: " + ToUri(identity));
  }
  return joiner;
}

Result<MadeToken> Enrolment::MakeToken(const Joiner& joiner,
                                       const std::vector<std::string>& addresses, Millis life,
                                       WallTime now) const {
  MadeToken made;
  made.serial = NewSerial();
  const Millis lives = life > Millis{0} ? life : kTokenLife;
  made.expires = now + lives;
  LAUNCH_ASSIGN_OR_RETURN(
      const auto issued,
      Issue(credentials_.ca_key, credentials_.ca,
            {Identity{cluster(), "join", joiner.role + ":" + joiner.name}, lives, {}, made.serial},
            now));
  made.line = FormatJoinToken(
      {cluster(), addresses, ca_pem(), issued.first.private_pem, issued.second.pem});
  return made;
}

Result<Certificate> Enrolment::SignJoined(std::string_view csr_pem, const Joiner& joiner,
                                          const std::string& serial, WallTime now) const {
  return SignCsr(
      csr_pem, credentials_.ca_key, credentials_.ca,
      {Identity{cluster(), joiner.role, joiner.name}, credentials_.lives.member, {}, serial}, now);
}

}  // namespace launch::controller
