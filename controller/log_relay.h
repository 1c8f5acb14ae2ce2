// Brings log bytes from the agents' bulk streams to the callers of Logs, past the loop.
//
// The one concurrent component: every function may be called from any thread. Bytes in flight to a
// follower never exceed its budget, because the agent may send only what it has credit for; a slow
// follower stalls its own reads and nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "common/annotated_mutex.h"
#include "common/view.h"
#include "controller/core/event.h"
#include "proto/convert_user.h"

namespace launch::controller {

// What is asked of an agent; proto/node.proto BulkDown is the wire form.
struct LogRead {
  std::uint64_t read = 0;
  Key key;
  Rank rank = 0;
  std::string stream;  // "out" | "err"
  std::optional<std::uint64_t> from;
  std::optional<std::uint32_t> last_lines;
  bool follow = false;
  std::uint64_t credit = 0;  // bytes
};

// The way to one agent's bulk stream. Called with the relay's lock held: it only queues, and never
// calls back into the relay.
class BulkLink {
 public:
  virtual ~BulkLink() = default;
  virtual void Read(const LogRead& read) = 0;
  virtual void Credit(std::uint64_t read, std::uint64_t bytes) = 0;
  virtual void Close(std::uint64_t read) = 0;
  virtual void Drop(const std::string& why) = 0;  // the agent broke the rules: end the stream
};

struct LogQuery {
  Caller caller;
  LogsCall call;
};

struct LogFinished {
  Result<void> status;
};
struct LogWait {};  // nothing now; `wake` will be called
using LogPull = std::variant<LogPiece, LogFinished, LogWait>;

class LogRelay {
 public:
  using FollowerId = StrongId<struct FollowerIdTag, std::uint64_t>;
  using LinkId = StrongId<struct LinkIdTag, std::uint64_t>;
  // Asks for the job as `caller` may see it; `done` may be called at once or later, from any
  // thread.
  using FetchJob = std::function<void(const Caller& caller, JobId job,
                                      std::function<void(Result<JobView>)> done)>;

  struct Limits {
    std::uint64_t follower_bytes = 256 << 10;  // in flight and waiting, over all ranks
    std::uint64_t read_bytes_min = 4 << 10;    // of one rank, however many there are
    std::size_t followers_per_user = 64;       // beyond it the oldest is closed
    Millis silence{3'000};  // a node may be away this long, as after a restart, before it is said
  };
  // Runs something later on a thread that holds none of our locks.
  using Later = std::function<void(Millis delay, std::function<void()> run)>;

  LogRelay(FetchJob fetch, Later later, Limits limits);
  LogRelay(FetchJob fetch, Later later);
  ~LogRelay();
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  // `wake` is called (without the lock) when Pull has something after a LogWait.
  FollowerId Open(LogQuery query, std::function<void()> wake) LAUNCH_EXCLUDES(mutex_);
  // The next item. Bytes count as delivered, and are credited to the agent, when taken.
  LogPull Pull(FollowerId follower) LAUNCH_EXCLUDES(mutex_);
  // After it `wake` is not called any more, but for a call already under way.
  void Close(FollowerId follower) LAUNCH_EXCLUDES(mutex_);
  // What was not delivered yet of any stream of the user's is dropped, and it ends with the error.
  void CloseUser(const UserName& user, const Error& why) LAUNCH_EXCLUDES(mutex_);

  void JobChanged(JobId job) LAUNCH_EXCLUDES(mutex_);

  // A node's bulk stream, of its control stream's session. A second one of the same node replaces
  // the first.
  LinkId NodeUp(const NodeId& node, SessionId session, std::shared_ptr<BulkLink> link)
      LAUNCH_EXCLUDES(mutex_);
  void NodeDown(LinkId link) LAUNCH_EXCLUDES(mutex_);
  // The control stream ended: its bulk stream has no business any more.
  void SessionOver(SessionId session) LAUNCH_EXCLUDES(mutex_);
  void OnChunk(LinkId link, std::uint64_t read, std::uint64_t offset, std::string data,
               WallTime wall) LAUNCH_EXCLUDES(mutex_);
  void OnGap(LinkId link, std::uint64_t read, std::uint64_t from, std::uint64_t to, std::string why)
      LAUNCH_EXCLUDES(mutex_);
  void OnEnd(LinkId link, std::uint64_t read, std::uint64_t offset, bool complete,
             std::string error) LAUNCH_EXCLUDES(mutex_);

 private:
  struct Source;
  struct Follower;
  struct Node {
    LinkId id;
    SessionId session;
    std::shared_ptr<BulkLink> link;
  };
  using After = std::vector<std::function<void()>>;  // run when the lock is released

  void Refresh(FollowerId id, Follower& follower, After& after) LAUNCH_REQUIRES(mutex_);
  void OnView(FollowerId id, Result<JobView> view) LAUNCH_EXCLUDES(mutex_);
  void Await(FollowerId id, Source& source) LAUNCH_REQUIRES(mutex_);
  void OnAwaited(FollowerId id, std::uint64_t wait) LAUNCH_EXCLUDES(mutex_);
  static const AttemptView* Begun(const Follower& follower, const JobView& view);
  void Advance(FollowerId id, Follower& follower) LAUNCH_REQUIRES(mutex_);
  bool ReadsOver(FollowerId id, Follower& follower, const AttemptView& attempt)
      LAUNCH_REQUIRES(mutex_);
  void EndSource(Follower& follower, Source& source, bool complete, std::string error)
      LAUNCH_REQUIRES(mutex_);
  void Unlink(LinkId link) LAUNCH_REQUIRES(mutex_);
  void CloseReads(Follower& follower) LAUNCH_REQUIRES(mutex_);
  void AdvanceAll(After& after) LAUNCH_REQUIRES(mutex_);
  void Put(Source& source, LogPiece piece) LAUNCH_REQUIRES(mutex_);
  bool Joined(const Follower& follower, Source& source, const LogChunk& chunk)
      LAUNCH_REQUIRES(mutex_);
  void Wake(Follower& follower, After& after) LAUNCH_REQUIRES(mutex_);
  std::pair<Follower*, Source*> Find(LinkId link, std::uint64_t read) LAUNCH_REQUIRES(mutex_);
  BulkLink* LinkOf(const Source& source) LAUNCH_REQUIRES(mutex_);

  const FetchJob fetch_;
  const Later later_;
  const Limits limits_;
  Mutex mutex_;
  std::uint64_t last_id_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::map<FollowerId, std::unique_ptr<Follower>> followers_ LAUNCH_GUARDED_BY(mutex_);
  std::map<NodeId, Node> nodes_ LAUNCH_GUARDED_BY(mutex_);
  // Which follower and source a read on the wire belongs to.
  std::map<std::uint64_t, std::pair<FollowerId, Source*>> reads_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
