// Calls of the CLI to the controller: mutual TLS, a deadline on every call, errors people can act
// on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/exec.h"
#include "common/view.h"
#include "proto/convert_user.h"

namespace launch {

struct ExecCall;

// Where a controller is and who we are to it.
struct Cluster {
  std::string address;      // "host:port"
  std::string credentials;  // directory of ca.pem, cert.pem and key.pem
  bool embedded = false;    // the one `launch dev` runs on this machine
};

inline constexpr std::size_t kMostChunksAsked = 8'000;
inline constexpr std::size_t kMostChunkBytesPut = 768 * 1024;  // of the 1 MiB of a request

struct TokenMade {
  std::string token;  // secret; one line
  std::string serial;
};
struct TokenRow {
  std::string serial;
  std::string says;
};
struct WhoIs {
  std::string identity;  // "/user/ana"
  bool is_operator = false;
  std::string cluster;
  std::string version;
};
struct ControllerStatus {
  std::string cluster;
  std::string version;
  std::uint64_t jobs = 0;
  std::uint64_t nodes = 0;
  std::int64_t pid = 0;
  std::string state_dir;
};

// What a command beside a rank says.
struct ExecBytes {
  std::string data;
  bool err = false;
};
using ExecSaid = std::variant<ExecBytes, ExecEnd>;

// The open stream of one command: one thread may read while another one writes. False and absent
// mean that it has ended; Client::Exec says why.
class ExecStream {
 public:
  virtual ~ExecStream() = default;
  virtual std::optional<ExecSaid> Read() = 0;
  virtual bool Write(const std::string& data) = 0;  // 1 to kExecPiece bytes
  virtual bool EndInput() = 0;
  virtual bool Resize(const TerminalSize& size) = 0;
  virtual void Cancel() = 0;  // from any thread
};

// One connection; used by one thread. kUnavailable says whether nobody answered or whether the two
// sides do not trust each other.
class Client {
 public:
  // Checks the credential files; connects on the first call.
  static Result<Client> Open(const Cluster& cluster);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Repeats up to five times under the call's idempotency key when the answer got lost.
  Result<SubmitAnswer> Submit(const SubmitCall& call);
  Result<PlanAnswer> Plan(const PlanCall& call);
  Result<std::vector<JobView>> Jobs(const JobsCall& call);
  Result<JobView> Job(JobId job);
  Result<std::vector<CancelAnswer>> Cancel(const std::vector<JobId>& jobs);
  Result<std::vector<ChangeAnswer>> Change(const ChangeCall& call);
  Result<std::vector<NodeView>> Nodes();
  Result<void> Drain(const DrainCall& call);
  Result<void> NoteProbe(JobId job, const ProbePoint& point);
  // Stores what the nodes of a job, by place, measured of the network between them.
  Result<void> NoteNetwork(JobId job, const std::vector<NetworkFacts>& facts);
  Result<void> ForgetNode(const NodeId& node);
  Result<void> FenceNode(const NodeId& node);
  Result<std::vector<QuarantinedGpu>> Quarantine(const QuarantineCall& call);
  Result<TokenMade> CreateToken(const TokenCall& call);
  Result<std::vector<TokenRow>> ListTokens();
  Result<void> RevokeToken(const RevokeCall& call);
  // Which chunks of a copied directory, as (digest, size), the controller lacks; an empty answer
  // means that all are there and durable. At most kMostChunksAsked and kMostChunkBytesPut in one
  // call.
  Result<std::vector<std::string>> MissingChunks(
      const std::vector<std::pair<std::string, std::uint32_t>>& chunks);
  Result<void> PutChunks(const std::vector<std::string>& chunks);
  Result<WhoIs> WhoAmI();
  Result<ControllerStatus> Status();
  // Signs the caller's key: the certificate and the CA, PEM.
  struct Joined {
    std::string certificate_pem;
    std::string ca_pem;
    std::string identity;
  };
  Result<Joined> Join(const JoinCall& call);

  // Streams: `take` returns false to stop early. Ends with the stream, or after `at_most` with
  // kDeadlineExceeded.
  Result<void> Watch(const WatchCall& call, Millis at_most,
                     const std::function<bool(const EventView&)>& take);
  Result<void> Logs(const LogsCall& call, Millis at_most,
                    const std::function<bool(const LogPiece&)>& take);
  // Reads as long as pieces come: kDeadlineExceeded once nothing came for `silence`, or for up to
  // twice that.
  Result<void> ReadLogs(const LogsCall& call, Millis silence,
                        const std::function<bool(const LogPiece&)>& take);
  // Runs a command beside a rank; `serve` moves its bytes and returns when it is done with them.
  Result<void> Exec(const ExecCall& call, const std::function<void(ExecStream&)>& serve);

 private:
  struct Wire;
  explicit Client(std::unique_ptr<Wire> wire);
  std::unique_ptr<Wire> wire_;
};

// The address that stands beside a certificate (file `address`, written by `launch login`).
Result<std::string> AddressOfCredentials(const std::string& dir);
// The cluster of such a directory of credentials.
Result<Cluster> ClusterOfCredentials(const std::string& dir);

// Waits this long between tries: `base` doubled per try, with jitter, so that many clients of a
// restarted controller do not come back at once.
void BackOff(int attempt, Millis base);

}  // namespace launch
