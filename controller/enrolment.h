// The cluster's certificate authority: what `init` makes, join tokens, and signing after a join.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "common/controller_config.h"
#include "common/error.h"
#include "common/file_system.h"
#include "common/pki.h"

namespace launch::controller {

// Files below the state directory.
struct StatePaths {
  explicit StatePaths(std::string directory);
  std::string dir;
  std::string ca_certificate;          // ca.pem
  std::string ca_key;                  // ca.key, never leaves the host
  std::string controller_certificate;  // controller.pem
  std::string controller_key;          // controller.key
  std::string secrets_key;             // secrets.key: seals the secrets of jobs; save it apart
  std::string store;                   // store.db
  std::string chunks;                  // copies of working directories, in pieces
  std::string operator_dir;            // operator/{ca,cert,key}.pem: the first operator's identity
  std::string address;                 // "host:port", there while the controller serves
  std::string pid;
};

// What a running controller holds in memory.
struct Credentials {
  std::string cluster;
  KeyPair ca_key;
  Certificate ca;
  KeyPair key;
  Certificate certificate;
  std::string secrets_key;  // 32 bytes
  CertificateLives lives;
};

struct InitRequest {
  std::string cluster;
  std::string user;  // the first operator
  WallTime now{};
};

struct InitDone {
  Credentials credentials;
  std::string operator_serial;
};

// Makes the keys and certificates of a new cluster below `paths.dir`, private to this account.
// Refuses with kAlreadyExists when there is anything of a cluster already.
Result<InitDone> InitCredentials(FileSystem& files, const StatePaths& paths,
                                 const InitRequest& request);

// Reads them and renews what is due. kFailedPrecondition with the command to run when `init` was
// not.
Result<Credentials> LoadCredentials(FileSystem& files, const StatePaths& paths, WallTime now,
                                    const CertificateLives& lives = {});

// A certificate is replaced, with its key, when two thirds of its life are over or when it would
// live longer than it now may. True when it was.
Result<bool> RenewController(FileSystem& files, const StatePaths& paths, Credentials& credentials,
                             WallTime now);
// The first operator's, which lies in the state directory for `launch up`; nothing there is fine.
Result<bool> RenewOperator(FileSystem& files, const StatePaths& paths,
                           const Credentials& credentials, WallTime now);

struct MadeToken {
  std::string line;  // secret
  std::string serial;
  WallTime expires{};
};

// Who a join certificate lets in: its name is "node:gpu01".
struct Joiner {
  std::string role;  // node | user
  std::string name;
};
Result<Joiner> ParseJoiner(const Identity& identity);

// Signs for one cluster. Thread-safe: it holds nothing that changes.
class Enrolment {
 public:
  explicit Enrolment(Credentials credentials) : credentials_(std::move(credentials)) {}

  const std::string& cluster() const { return credentials_.cluster; }
  const std::string& ca_pem() const { return credentials_.ca.pem; }

  // Key and certificate for one join; worth nothing until its serial is committed.
  Result<MadeToken> MakeToken(const Joiner& joiner, const std::vector<std::string>& addresses,
                              Millis life, WallTime now) const;
  // The certificate of a node or user. Called after the join or renewal was committed.
  Result<Certificate> SignJoined(std::string_view csr_pem, const Joiner& joiner,
                                 const std::string& serial, WallTime now) const;

 private:
  const Credentials credentials_;
};

}  // namespace launch::controller
