#include "controller/services/watch_stream.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/units.h"
#include "proto/convert_error.h"
#include "proto/convert_user.h"

namespace launch::controller {
namespace {

constexpr std::size_t kEventsAtOnce = 64;
// Events that nobody wants are skipped this many at a time; the turns of others come between.
constexpr std::size_t kScanAtOnce = 1'024;

class WatchStream final : public PullStream<pb::WatchReply> {
 public:
  WatchStream(const LaunchServiceParts& parts, Caller caller, WatchCall call)
      : parts_(parts), caller_(std::move(caller)), call_(std::move(call)) {
    ring_ = parts_.watchers.Add(caller_.user, [handle = handle()] { handle->Wake(); });
  }

 private:
  Next Pull() override {
    if (ring_ == 0) {
      return ToStatus(Error{
          ErrorCode::kResourceExhausted,
          caller_.user.value + " watches " + std::to_string(WatchHub::kPerUser) + " times already",
          "end some `launch wait` or `launch events --follow` of yours", std::nullopt});
    }
    if (!parts_.watchers.IsOpen(ring_)) return ToStatus(ShutOut(caller_.user));
    for (std::size_t scanned = 0; ready_.empty(); scanned += kEventsAtOnce) {
      if (scanned >= kScanAtOnce) {
        parts_.executor.Post([handle = handle()] { handle->Wake(); });
        return NothingYet{};
      }
      auto events = parts_.store.Events(call_.after_seq, kEventsAtOnce);
      if (!events) return ToStatus(events.error());
      if (events->empty()) return call_.follow ? Next(NothingYet{}) : Next(grpc::Status::OK);
      for (StoredEvent& event : *events) {
        call_.after_seq = event.seq;
        if (Wanted(event)) ready_.push_back(std::move(event));
      }
    }
    StoredEvent event = std::move(ready_.front());
    ready_.pop_front();
    return ToWatchReply(EventView{event.seq, event.at, std::move(event.kind),
                                  std::move(event.subject), std::move(event.body)});
  }

  void Ended() override { parts_.watchers.Remove(ring_); }

  bool Wanted(const StoredEvent& event) const {
    const std::optional<JobId> job = JobOfSubject(event.subject);
    if (!call_.jobs.empty() && (!job || std::ranges::find(call_.jobs, *job) == call_.jobs.end())) {
      return false;
    }
    if (caller_.is_operator) return true;
    if (!job) return event.subject.starts_with("node/");
    const auto owner = parts_.directory.OwnerOf(*job);
    return owner && MaySeeInFull(caller_, *owner);
  }

  const LaunchServiceParts parts_;
  const Caller caller_;
  WatchCall call_;
  std::uint64_t ring_ = 0;
  std::deque<StoredEvent> ready_;
};

}  // namespace

std::optional<JobId> JobOfSubject(std::string_view subject) {
  const auto slash = subject.find('/');
  const std::string_view kind = subject.substr(0, slash);
  if (slash == std::string_view::npos || (kind != "job" && kind != "attempt")) return std::nullopt;
  subject.remove_prefix(slash + 1);
  const auto number = ParseInt(subject.substr(0, subject.find('.')));
  if (!number || *number <= 0) return std::nullopt;
  return JobId{static_cast<std::uint64_t>(*number)};
}

grpc::ServerWriteReactor<pb::WatchReply>* MakeWatchStream(const LaunchServiceParts& parts,
                                                          Caller caller, WatchCall call) {
  auto* stream = new WatchStream(parts, std::move(caller), std::move(call));
  const auto handle = stream->handle();
  handle->Start();
  return stream;
}

}  // namespace launch::controller
