// Commands beside ranks: joins the stream of a user with the one that the node's agent opens for
// it, and passes messages on, one at a time in each direction.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/annotated_mutex.h"
#include "common/error.h"
#include "common/ids.h"
#include "controller/core/event.h"
#include "proto/launch.pb.h"
#include "proto/node.pb.h"

namespace launch::controller {

using ExecUserReactor = grpc::ServerBidiReactor<launch::v1::ExecRequest, launch::v1::ExecOutput>;
using ExecNodeReactor = grpc::ServerBidiReactor<launch::v1::ExecUp, launch::v1::ExecInput>;

// One session. The next message of a side is read only when the one before was written to the other
// side: the connections' own flow control then holds up whoever is too fast, and nothing piles up
// here. Thread-safe. All calls into gRPC happen under its mutex, inside of none of which a callback
// runs. It outlives both reactors, which tell it before they go.
class ExecSession {
 public:
  // Reads the user's first message into `incoming`; whoever made the reactor looks at it.
  void BeginUser(ExecUserReactor* user, launch::v1::ExecRequest* incoming) LAUNCH_EXCLUDES(mutex_);
  // The core said which node was asked. `command` is the first message for it.
  void Expect(const NodeId& node, launch::v1::ExecInput command) LAUNCH_EXCLUDES(mutex_);
  void FromUser(launch::v1::ExecInput message) LAUNCH_EXCLUDES(mutex_);
  void UserWritten(bool ok) LAUNCH_EXCLUDES(mutex_);
  void UserGone() LAUNCH_EXCLUDES(mutex_);      // half-closed or cancelled: the session is over
  void UserReleased() LAUNCH_EXCLUDES(mutex_);  // the reactor is no more

  // False, and nothing is touched, when the session does not wait for that node.
  bool BeginNode(ExecNodeReactor* node, launch::v1::ExecUp* incoming, const NodeId& who,
                 SessionId control) LAUNCH_EXCLUDES(mutex_);
  void FromNode(launch::v1::ExecOutput message) LAUNCH_EXCLUDES(mutex_);
  void NodeWritten(bool ok) LAUNCH_EXCLUDES(mutex_);
  void NodeGone() LAUNCH_EXCLUDES(mutex_);
  void NodeReleased() LAUNCH_EXCLUDES(mutex_);

  // Tells both sides; what was not written yet is dropped.
  void Close(const grpc::Status& status) LAUNCH_EXCLUDES(mutex_);
  void CloseUnlessJoined(const grpc::Status& status) LAUNCH_EXCLUDES(mutex_);
  bool IsOf(SessionId control) LAUNCH_EXCLUDES(mutex_);

 private:
  template <class In, class Out>
  struct End {
    grpc::ServerBidiReactor<In, Out>* reactor = nullptr;
    In* incoming = nullptr;
    bool reading = false;
    bool writing = false;
    bool finished = false;
    std::optional<Out> next;              // before `closing`
    std::optional<grpc::Status> closing;  // the first one counts
    Out outgoing;                         // untouched while writing
  };
  void Step() LAUNCH_REQUIRES(mutex_);
  void CloseBoth(const grpc::Status& status) LAUNCH_REQUIRES(mutex_);

  Mutex mutex_;
  End<launch::v1::ExecRequest, launch::v1::ExecOutput> user_ LAUNCH_GUARDED_BY(mutex_);
  End<launch::v1::ExecUp, launch::v1::ExecInput> node_ LAUNCH_GUARDED_BY(mutex_);
  std::optional<NodeId> expected_ LAUNCH_GUARDED_BY(mutex_);    // until it came
  std::optional<SessionId> control_ LAUNCH_GUARDED_BY(mutex_);  // of the node that came
};

// All sessions. Thread-safe.
class ExecDesk {
 public:
  struct Limits {
    std::size_t of_user = 16;
    std::size_t all = 256;
  };
  ExecDesk() : ExecDesk(Limits{}) {}
  explicit ExecDesk(Limits limits) : limits_(limits) {}

  struct Opened {
    std::string id;  // 32 hex digits, not to be guessed
    std::shared_ptr<ExecSession> session;
  };
  // kResourceExhausted beyond the limits.
  Result<Opened> Open(const UserName& user) LAUNCH_EXCLUDES(mutex_);
  void Forget(const std::string& id) LAUNCH_EXCLUDES(mutex_);
  std::shared_ptr<ExecSession> Find(const std::string& id) LAUNCH_EXCLUDES(mutex_);
  // The agent's control stream is over: so are the commands that it carries.
  void SessionOver(SessionId control) LAUNCH_EXCLUDES(mutex_);
  void CloseUser(const UserName& user, const grpc::Status& status) LAUNCH_EXCLUDES(mutex_);
  void CloseAll(const grpc::Status& status) LAUNCH_EXCLUDES(mutex_);

 private:
  struct One {
    UserName user;
    std::shared_ptr<ExecSession> session;
  };
  const Limits limits_;
  Mutex mutex_;
  std::map<std::string, One> sessions_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
