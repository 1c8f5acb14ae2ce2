#include "agent/link/controller_link.h"

#include <grpcpp/channel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <system_error>

#include "agent/link/attach_stream.h"
#include "agent/link/bulk_stream.h"
#include "agent/link/channel.h"
#include "agent/link/identity_files.h"
#include "agent/link/renewal.h"
#include "common/pki.h"
#include "common/quoted.h"

namespace launch::agent {
namespace {

constexpr Millis kDialDeadline{10'000};
constexpr Millis kPoll{200};

// True once the connection stands; false when it failed or the deadline passed.
bool WaitReady(grpc::Channel& channel, const std::function<bool()>& stopping) {
  const auto deadline = std::chrono::steady_clock::now() + kDialDeadline;
  for (;;) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (stopping() || std::chrono::steady_clock::now() > deadline) return false;
    (void)channel.WaitForStateChange(state, std::chrono::system_clock::now() + kPoll);
  }
}

}  // namespace

Millis ReconnectDelay(int failures, double draw) {
  const int doublings = std::clamp(failures - 1, 0, 5);
  const double base = std::min(500.0 * static_cast<double>(1 << doublings), 15'000.0);
  return Millis(static_cast<std::int64_t>(base * (0.8 + 0.4 * draw)));
}

ControllerLink::ControllerLink(LinkSettings settings, FileSystem& files, LogSource& logs,
                               ToldSink sink)
    : settings_(std::move(settings)),
      files_(files),
      logs_(logs),
      sink_(std::move(sink)),
      thread_([this] { Run(); }) {}

ControllerLink::~ControllerLink() {
  std::shared_ptr<AttachStream> open;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    open = current_;
  }
  stop_condition_.notify_all();
  if (open) open->Cancel("the agent ends");
  thread_.join();
}

void ControllerLink::Wait(Millis time) {
  std::unique_lock lock(mutex_);
  stop_condition_.wait_for(lock, time, [this] { return stopping_; });
}

std::shared_ptr<AttachStream> ControllerLink::Current(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  return stream == streams_ ? current_ : nullptr;
}

void ControllerLink::Send(std::uint64_t stream, const FromNode& message) {
  if (const auto open = Current(stream)) open->Send(message);
}

void ControllerLink::Close(std::uint64_t stream, const std::string& why) {
  if (const auto open = Current(stream)) open->Cancel(why);
}

std::optional<ControllerLink::Peer> ControllerLink::CurrentPeer() {
  const std::lock_guard lock(mutex_);
  if (!current_ || current_->session() == 0) return std::nullopt;
  return Peer{current_address_, current_->session()};
}

void ControllerLink::Run() {
  std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<double> uniform(0, 1);
  int failures = 0;
  std::size_t next = 0;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    const std::string& address = settings_.controllers[next++ % settings_.controllers.size()];
    failures = RunOnce(address) ? 1 : failures + 1;
    Wait(ReconnectDelay(failures, uniform(random)));
  }
}

// The clock of this machine may be wrong, so what looks over is tried all the same.
void ControllerLink::SayWhatIsOver(const IdentityFiles& identity) {
  const auto good = CheckIssued(Certificate{identity.certificate_pem}, Certificate{identity.ca_pem},
                                SystemClock().WallNow());
  const std::string over = good ? "" : good.error().message;
  if (!good && over != last_over_)
    spdlog::error("link.certificate_not_valid why={} hint={}", Quoted(over),
                  Quoted("`launch up` again where the cluster was made, or launch-agent join "
                         "--rejoin with a new token"));
  last_over_ = over;
}

// The stream goes on with what it was opened with; a new one proves the new certificate while the
// old one is good, and logs and commands are served with it.
void ControllerLink::RenewWhenDue(Renewal& renewal, const std::shared_ptr<grpc::Channel>& channel,
                                  AttachStream& stream) {
  const WallTime now = SystemClock().WallNow();
  if (!renewal.IsDue(now)) return;
  if (auto renewed = renewal.Renew(channel, now); !renewed) {
    spdlog::warn("link.renewal_failed why={}", Quoted(renewed.error().message));
    return;
  }
  spdlog::info("link.certificate_renewed");
  stream.Cancel("the certificate of this node was renewed");
}

// None at the limit of processes, which ranks of the same account can reach: without logs for a
// while, but the node stays.
std::unique_ptr<BulkLink> ControllerLink::OpenBulk(const std::string& address,
                                                   const IdentityFiles& identity,
                                                   std::uint64_t session) {
  try {
    auto bulk = std::make_unique<BulkLink>(address, identity, session, logs_);
    without_bulk_ = false;
    return bulk;
  } catch (const std::system_error& failure) {
    if (!without_bulk_) spdlog::warn("link.no_logs why={}", Quoted(failure.what()));
    without_bulk_ = true;
    return nullptr;
  }
}

bool ControllerLink::RunOnce(const std::string& address) {
  const auto identity = ReadIdentity(files_, settings_.state_dir);
  if (!identity) {
    if (last_problem_ != identity.error().message)
      spdlog::error("link.identity_unusable why={}", Quoted(identity.error().message));
    last_problem_ = identity.error().message;
    return false;
  }
  SayWhatIsOver(*identity);
  const auto channel = Dial(address, *identity);
  Renewal renewal(files_, settings_.state_dir, *identity);
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  const bool ready = WaitReady(*channel, stopping);
  std::shared_ptr<AttachStream> stream;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    number = ++streams_;
    stream = current_ = std::make_shared<AttachStream>(number, sink_);
    current_address_ = address;
  }
  const auto stub = v1::Node::NewStub(channel);
  if (ready) spdlog::info("link.up stream={} controller={}", number, address);
  stream->Start(*stub, ready);
  std::unique_ptr<BulkLink> bulk;
  std::optional<std::string> end;
  bool welcomed = false;
  while (!(end = stream->WaitEnd(kPoll))) {
    if (!ready) stream->Cancel("no connection to " + address + " within 10 s");
    if (stopping()) stream->Cancel("the agent ends");
    welcomed = stream->session() != 0;
    if (welcomed && !bulk) {
      last_problem_.clear();
      bulk = OpenBulk(address, *identity, stream->session());
    }
    if (welcomed) RenewWhenDue(renewal, channel, *stream);
  }
  {
    const std::lock_guard lock(mutex_);
    current_.reset();
  }
  if (ready || *end != last_problem_)
    spdlog::warn("link.down stream={} controller={} why={}", number, address, Quoted(*end));
  last_problem_ = *end;
  return welcomed;
}

}  // namespace launch::agent
