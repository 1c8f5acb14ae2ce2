#include "cli/client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "cli/own_certificate.h"
#include "cli/silence_guard.h"
#include "cli/unreachable.h"
#include "common/clock.h"
#include "proto/convert_error.h"
#include "proto/convert_exec.h"
#include "proto/convert_value.h"
#include "proto/launch.grpc.pb.h"

namespace launch {
namespace {

constexpr Millis kCallDeadline{20'000};
constexpr Millis kChunkDeadline{60'000};  // of a busy disk behind a slow link
constexpr Millis kReconnectWait{2'000};
constexpr int kTries = 5;
constexpr char kServerName[] = "launch-controller";  // in every controller's certificate

Result<std::string> ReadSmallFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Fail(ErrorCode::kNotFound, "cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void BackOffShortly(int attempt) { BackOff(attempt, Millis(100)); }

class WireExecStream final : public ExecStream {
 public:
  WireExecStream(grpc::ClientContext& context,
                 grpc::ClientReaderWriter<pb::ExecRequest, pb::ExecOutput>& stream)
      : context_(context), stream_(stream) {}

  std::optional<ExecSaid> Read() override {
    pb::ExecOutput said;
    if (!stream_.Read(&said)) return std::nullopt;
    if (said.has_out()) return ExecBytes{std::move(*said.mutable_out()), false};
    if (said.has_err()) return ExecBytes{std::move(*said.mutable_err()), true};
    const auto end = FromProto(said.end());
    return end ? *end : ExecEnd{1, 0, end.error().message};
  }
  bool Write(const std::string& data) override {
    pb::ExecRequest request;
    request.mutable_input()->set_data(data);
    return stream_.Write(request);
  }
  bool EndInput() override {
    pb::ExecRequest request;
    request.mutable_input()->set_end(true);
    return stream_.Write(request);
  }
  bool Resize(const TerminalSize& size) override {
    pb::ExecRequest request;
    *request.mutable_input()->mutable_size() = ToProto(size);
    return stream_.Write(request);
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext& context_;
  grpc::ClientReaderWriter<pb::ExecRequest, pb::ExecOutput>& stream_;
};

}  // namespace

struct Client::Wire {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Launch::Stub> launch;
  std::unique_ptr<pb::Operator::Stub> op;
  std::unique_ptr<pb::Identity::Stub> identity;

  // A channel that has failed connects again only while somebody waits for it.
  void Reconnect() {
    if (channel->GetState(true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
    channel->WaitForConnected(std::chrono::system_clock::now() + kReconnectWait);
  }

  // With details of ours the controller has answered: a node may be what cannot be reached.
  Error Explained(const grpc::Status& status) const {
    Error error = FromStatus(status, "the controller at " + address);
    return status.error_details().empty() ? ExplainUnreachable(std::move(error)) : error;
  }

  template <class Stub, class Request, class Reply>
  Result<Reply> Call(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, Millis deadline = kCallDeadline) {
    Reconnect();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    Reply reply;
    const grpc::Status status = (stub.*method)(&context, request, &reply);
    if (!status.ok()) return Unexpected(Explained(status));
    return reply;
  }

  template <class Reader, class Reply, class Take>
  Result<void> Drain(grpc::ClientContext& context, Reader& reader, Reply reply, const Take& take) {
    while (reader->Read(&reply)) {
      auto value = FromProto(reply);
      if (!value) {
        context.TryCancel();
        return Unexpected(value.error());
      }
      if (!take(*value)) {
        context.TryCancel();
        while (reader->Read(&reply)) {
        }
        reader->Finish();
        return {};
      }
    }
    const grpc::Status status = reader->Finish();
    if (!status.ok()) return Unexpected(Explained(status));
    return {};
  }
};

Client::Client(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

void BackOff(int attempt, Millis base) {
  std::random_device seed;
  std::uniform_real_distribution<double> jitter(0.5, 1.5);
  std::mt19937 random(seed());
  const double scaled = static_cast<double>(base.count() << std::min(attempt, 6)) * jitter(random);
  std::this_thread::sleep_for(Millis(static_cast<std::int64_t>(scaled)));
}

Result<std::string> AddressOfCredentials(const std::string& dir) {
  Result<std::string> read = ReadSmallFile(std::filesystem::path(dir) / "address");
  if (!read)
    return Fail(ErrorCode::kUnavailable, read.error().message,
                "`launch login` writes it; or name the controller with --controller");
  std::string text = std::move(*read);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<Cluster> ClusterOfCredentials(const std::string& dir) {
  LAUNCH_ASSIGN_OR_RETURN(std::string address, AddressOfCredentials(dir));
  return Cluster{std::move(address), dir, false};
}

Result<Client> Client::Open(const Cluster& cluster) {
  const WallTime now = SystemClock().WallNow();
  LAUNCH_ASSIGN_OR_RETURN(const CredentialFiles own, OpenCredentials(cluster.credentials, now));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = own.ca_pem;
  options.pem_cert_chain = own.certificate_pem;
  options.pem_private_key = own.key_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(kServerName);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  auto wire = std::make_unique<Wire>();
  wire->address = cluster.address;
  wire->channel =
      grpc::CreateCustomChannel(cluster.address, grpc::SslCredentials(options), arguments);
  RenewWhenDue(cluster.credentials, own, wire->channel, now);
  wire->launch = pb::Launch::NewStub(wire->channel);
  wire->op = pb::Operator::NewStub(wire->channel);
  wire->identity = pb::Identity::NewStub(wire->channel);
  return Client(std::move(wire));
}

Result<SubmitAnswer> Client::Submit(const SubmitCall& call) {
  const pb::SubmitRequest request = ToProto(call);
  bool arrived = false;  // some try may have
  // Whether the job was stored is unknown then; the key makes the repetition harmless.
  auto reply = Again(kTries, BackOffShortly, [&] {
    auto tried = wire_->Call(*wire_->launch, &pb::Launch::Stub::Submit, request);
    if (!tried) arrived = arrived || MayHaveArrived(tried.error());
    return tried;
  });
  if (reply) return FromProto(*reply);
  if (!IsUnanswered(reply.error()) || !arrived) return Unexpected(reply.error());
  return Unexpected(OutcomeUnknown(reply.error()));
}

Result<PlanAnswer> Client::Plan(const PlanCall& call) {
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::Plan, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<std::vector<JobView>> Client::Jobs(const JobsCall& call) {
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::Jobs, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<JobView> Client::Job(JobId job) {
  pb::JobRequest request;
  request.set_job(job.value);
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::Job, request);
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<std::vector<CancelAnswer>> Client::Cancel(const std::vector<JobId>& jobs) {
  const pb::CancelRequest request = ToProto(CancelCall{jobs});
  auto reply = Again(kTries, BackOffShortly, [&] {
    return wire_->Call(*wire_->launch, &pb::Launch::Stub::Cancel, request);
  });
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<void> Client::NoteProbe(JobId job, const ProbePoint& point) {
  auto reply =
      wire_->Call(*wire_->launch, &pb::Launch::Stub::NoteProbe, ToProto(NoteProbeCall{job, point}));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<void> Client::NoteNetwork(JobId job, const std::vector<NetworkFacts>& facts) {
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::NoteProbe,
                           ToProto(NoteProbeCall{job, std::nullopt, facts}));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<std::vector<ChangeAnswer>> Client::Change(const ChangeCall& call) {
  const pb::ChangeRequest request = ToProto(call);
  // A second requeue would stop the attempt that the first one began; all else says how it shall
  // be.
  const bool twice = call.change.action == JobAction::kRequeue;
  auto reply = Again(
      kTries, BackOffShortly,
      [&] { return wire_->Call(*wire_->launch, &pb::Launch::Stub::Change, request); },
      twice ? Repeat::kUnsent : Repeat::kUnanswered);
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<std::vector<NodeView>> Client::Nodes() {
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::Nodes, pb::NodesRequest());
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<void> Client::Drain(const DrainCall& call) {
  auto reply = wire_->Call(*wire_->op, &pb::Operator::Stub::Drain, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<void> Client::ForgetNode(const NodeId& node) {
  auto reply =
      wire_->Call(*wire_->op, &pb::Operator::Stub::ForgetNode, ToProto(ForgetNodeCall{node}));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<void> Client::FenceNode(const NodeId& node) {
  auto reply =
      wire_->Call(*wire_->op, &pb::Operator::Stub::FenceNode, ToProto(FenceNodeCall{node}));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<std::vector<QuarantinedGpu>> Client::Quarantine(const QuarantineCall& call) {
  auto reply = wire_->Call(*wire_->op, &pb::Operator::Stub::Quarantine, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return FromProto(*reply);
}

Result<TokenMade> Client::CreateToken(const TokenCall& call) {
  auto reply = wire_->Call(*wire_->op, &pb::Operator::Stub::CreateToken, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return TokenMade{reply->token(), reply->serial()};
}

Result<std::vector<TokenRow>> Client::ListTokens() {
  auto reply = wire_->Call(*wire_->op, &pb::Operator::Stub::ListTokens, pb::ListTokensRequest());
  if (!reply) return Unexpected(reply.error());
  std::vector<TokenRow> rows;
  for (const auto& row : reply->rows()) rows.push_back({row.serial(), row.says()});
  return rows;
}

Result<void> Client::RevokeToken(const RevokeCall& call) {
  auto reply = wire_->Call(*wire_->op, &pb::Operator::Stub::RevokeToken, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<std::vector<std::string>> Client::MissingChunks(
    const std::vector<std::pair<std::string, std::uint32_t>>& chunks) {
  pb::MissingChunksRequest request;
  for (const auto& [digest, size] : chunks) {
    request.add_digests(digest);
    request.add_sizes(size);
  }
  auto reply =
      wire_->Call(*wire_->launch, &pb::Launch::Stub::MissingChunks, request, kChunkDeadline);
  if (!reply) return Unexpected(reply.error());
  return std::vector<std::string>(reply->digests().begin(), reply->digests().end());
}

Result<void> Client::PutChunks(const std::vector<std::string>& chunks) {
  pb::PutChunksRequest request;
  for (const std::string& chunk : chunks) request.add_chunks(chunk);
  auto reply = wire_->Call(*wire_->launch, &pb::Launch::Stub::PutChunks, request, kChunkDeadline);
  if (!reply) return Unexpected(reply.error());
  return {};
}

Result<WhoIs> Client::WhoAmI() {
  auto reply = wire_->Call(*wire_->identity, &pb::Identity::Stub::WhoAmI, pb::WhoAmIRequest());
  if (!reply) return Unexpected(reply.error());
  return WhoIs{reply->identity(), reply->is_operator(), reply->cluster(), reply->version()};
}

Result<ControllerStatus> Client::Status() {
  auto reply =
      wire_->Call(*wire_->op, &pb::Operator::Stub::Status, pb::StatusRequest(), Millis(5000));
  if (!reply) return Unexpected(reply.error());
  return ControllerStatus{reply->cluster(), reply->version(), reply->jobs(),
                          reply->nodes(),   reply->pid(),     reply->state_dir()};
}

Result<Client::Joined> Client::Join(const JoinCall& call) {
  auto reply = wire_->Call(*wire_->identity, &pb::Identity::Stub::Join, ToProto(call));
  if (!reply) return Unexpected(reply.error());
  return Joined{reply->certificate_pem(), reply->ca_pem(), reply->identity()};
}

Result<void> Client::Watch(const WatchCall& call, Millis at_most,
                           const std::function<bool(const EventView&)>& take) {
  wire_->Reconnect();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + at_most);
  auto reader = wire_->launch->Watch(&context, ToProto(call));
  return wire_->Drain(context, reader, pb::WatchReply(), take);
}

Result<void> Client::Logs(const LogsCall& call, Millis at_most,
                          const std::function<bool(const LogPiece&)>& take) {
  wire_->Reconnect();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + at_most);
  auto reader = wire_->launch->Logs(&context, ToProto(call));
  return wire_->Drain(context, reader, pb::LogsReply(), take);
}

Result<void> Client::ReadLogs(const LogsCall& call, Millis silence,
                              const std::function<bool(const LogPiece&)>& take) {
  wire_->Reconnect();
  grpc::ClientContext context;
  auto reader = wire_->launch->Logs(&context, ToProto(call));
  SilenceGuard guard(silence, [&] { context.TryCancel(); });
  Result<void> end = wire_->Drain(context, reader, pb::LogsReply(), [&](const LogPiece& piece) {
    guard.Heard();
    const bool more = take(piece);
    guard.Listen();
    return more;
  });
  if (end || !guard.fired()) return end;
  return Fail(ErrorCode::kDeadlineExceeded, "the controller at " + wire_->address +
                                                " sent nothing of the log for " +
                                                std::to_string(silence.count() / 1000) + " s");
}

Result<void> Client::Exec(const ExecCall& call, const std::function<void(ExecStream&)>& serve) {
  wire_->Reconnect();
  grpc::ClientContext context;
  const auto wire = wire_->launch->Exec(&context);
  pb::ExecRequest open;
  *open.mutable_open() = ToProto(call);
  WireExecStream stream(context, *wire);
  if (wire->Write(open)) serve(stream);
  wire->WritesDone();
  while (stream.Read()) {
  }
  const grpc::Status status = wire->Finish();
  if (!status.ok()) return Unexpected(wire_->Explained(status));
  return {};
}

}  // namespace launch
