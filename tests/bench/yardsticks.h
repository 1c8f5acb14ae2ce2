// What the machine itself can do, measured beside the subject: spawn, synced append, bare RPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/error.h"

namespace launch::bench {

std::int64_t MonotonicNs();

// posix_spawn of `program argument` to its first instruction (its own stamp), in ns.
Result<std::int64_t> SpawnNs(const std::string& program, const std::string& stamp_file);

// Append of 256 bytes and fdatasync, in ns.
Result<std::int64_t> SyncNs(int fd);

// A callback server with one method and a client on loopback, in this process, without TLS.
class BareRpc {
 public:
  static Result<BareRpc> Make();
  Result<std::int64_t> CallNs(std::size_t bytes);  // one unary call, in ns
  BareRpc(BareRpc&&) noexcept;
  ~BareRpc();

 private:
  struct Parts;
  explicit BareRpc(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace launch::bench
