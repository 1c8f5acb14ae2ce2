#include "controller/controller.h"

#include <grpcpp/impl/codegen/service_type.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "common/file_system.h"
#include "common/first_line.h"
#include "common/mailbox.h"
#include "common/quoted.h"
#include "controller/chunk_store.h"
#include "controller/core/decide.h"
#include "controller/diagnosis_worker.h"
#include "controller/log_relay.h"
#include "controller/plan_codec.h"
#include "controller/plan_worker.h"
#include "controller/services/addresses.h"
#include "controller/services/exec_desk.h"
#include "controller/services/identity_service.h"
#include "controller/services/launch_service.h"
#include "controller/services/node_service.h"
#include "controller/services/operator_service.h"
#include "controller/services/server.h"
#include "controller/serving_files.h"
#include "controller/switchboard.h"

namespace launch::controller {
namespace {

constexpr std::size_t kMailbox = 65'536;
constexpr Millis kSweepPeriod{60 * 60 * 1000};

struct Loaded {
  StorePosition position;
  bool unwitnessed = false;
};

// Every row becomes state, by the same Apply as in service.
Result<Loaded> LoadState(Store& store, const RecordCodec& codec, State& state) {
  LAUNCH_ASSIGN_OR_RETURN(const Snapshot snapshot, store.Load());
  for (const StoredRow& row : snapshot.rows) {
    auto entity = codec.decode(row.key, row.value);
    if (!entity) {
      return Fail(ErrorCode::kDataLoss, "row " + row.key + ": " + entity.error().message,
                  "the store is damaged or was written by a newer version; restore a backup");
    }
    Apply(state, Put{std::move(*entity)});
  }
  return Loaded{StorePosition{0, 0, snapshot.revision, snapshot.last_event}, snapshot.unwitnessed};
}

}  // namespace

Decision FirstRecords(const std::string& cluster, const std::string& user,
                      const std::string& user_serial) {
  Decision first;
  ClusterRecord record;
  record.id = cluster;
  first.records.push_back(Put{record});
  first.records.push_back(Put{UserRecord{UserName{user}, true, user_serial}});
  first.records.push_back(EventRow{"cluster.created", "cluster", cluster + " by " + user});
  return first;
}

Result<void> InitStore(Store& store, EncodeEntity encode, const Decision& first, WallTime now) {
  LAUNCH_ASSIGN_OR_RETURN(const Snapshot snapshot, store.Load());
  if (!snapshot.rows.empty()) {
    return Fail(ErrorCode::kAlreadyExists, "the store holds a cluster already");
  }
  Batch batch;
  batch.expected = snapshot.revision;
  batch.at = now;
  for (const Record& record : first.records) {
    if (const auto* put = std::get_if<Put>(&record)) {
      batch.puts.emplace_back(KeyOf(put->entity), encode(put->entity));
    } else if (const auto* event = std::get_if<EventRow>(&record)) {
      batch.events.push_back({event->kind, event->subject, event->text});
    }
  }
  LAUNCH_RETURN_IF_ERROR(store.Commit(batch));
  return {};
}

// Members are destroyed in reverse order: what others use comes first.
struct Controller::Running {
  Running(Parts given, std::uint64_t epoch)
      : parts(std::move(given)),
        mailbox(kMailbox),
        requests(mailbox, executor, {parts.config.request_deadline, 256}),
        sessions(epoch),
        relay([this](const Caller& caller, JobId job,
                     auto done) { FetchJob(caller, job, std::move(done)); },
              [this](Millis delay, std::function<void()> later) {
                executor.After(delay, std::move(later));
              }),
        planner([this](event::Planned planned) { mailbox.PushAlways(std::move(planned)); },
                [this](RequestId request) { return requests.IsWaiting(request); }),
        diagnosis([this](const LogsCall& call, Millis at_most,
                         const LogFeed& feed) { return ReadLog(relay, call, at_most, feed); },
                  [this](event::Diagnosed diagnosed) { mailbox.PushAlways(std::move(diagnosed)); }),
        own(parts.credentials),
        enrolment(parts.credentials),
        chunks(StatePaths(parts.state_dir).chunks, parts.config.max_copies_of_a_user),
        door(parts.door),
        gate(parts.credentials.cluster, directory, door, mailbox, *parts.clock),
        switchboard({directory, requests, sessions, relay, watchers, execs, planner, diagnosis,
                     executor, *parts.store, mailbox, parts.credentials.secrets_key,
                     StatePaths(parts.state_dir).secrets_key}),
        brain(state) {}

  // Copies of directories that no waiting or running job needs go after a day.
  void SweepChunks() {
    const auto swept =
        chunks.Sweep(directory.SnapshotsInUse(parts.clock->WallNow()), parts.clock->WallNow());
    if (!swept) {
      spdlog::warn("chunks.sweep_failed why={}", Quoted(swept.error().message));
    } else if (*swept > 0) {
      spdlog::info("chunks.swept count={}", *swept);
    }
    chunk_executor.After(kSweepPeriod, [this] { SweepChunks(); });
  }

  // The pair is served from the moment it is published; who is connected stays so.
  void RenewOwn() {
    PosixFileSystem files;
    const StatePaths paths(parts.state_dir);
    const WallTime now = parts.clock->WallNow();
    const auto renewed = RenewController(files, paths, own, now);
    if (!renewed)
      spdlog::error("controller.certificate_not_renewed why={}", Quoted(renewed.error().message));
    unpublished = unpublished || (renewed && *renewed);
    if (unpublished) {
      const auto published = PublishServing(files, parts.state_dir, own);
      unpublished = !published;
      if (published) {
        spdlog::info("controller.certificate_renewed");
      } else {
        spdlog::error("controller.certificate_not_published why={}",
                      Quoted(published.error().message));
      }
    }
    if (const auto first = RenewOperator(files, paths, own, now); !first)
      spdlog::warn("controller.operator_not_renewed why={}", Quoted(first.error().message));
    const Millis shortest = std::min(own.lives.controller, own.lives.member);
    executor.After(std::clamp(shortest / 30, Millis{100}, kSweepPeriod), [this] { RenewOwn(); });
  }

  void FetchJob(const Caller& caller, JobId job, std::function<void(Result<JobView>)> done) {
    requests.Ask("logs:" + caller.user.value, event::GetJob{{}, caller, job, /*plans=*/false},
                 [done = std::move(done)](Result<ReplyBody> body) {
                   if (!body) {
                     done(Unexpected(std::move(body).error()));
                   } else if (auto* view = std::get_if<JobView>(&*body)) {
                     done(std::move(*view));
                   }
                 });
  }

  Parts parts;
  State state;
  Directory directory;
  Mailbox<Event> mailbox;
  Executor executor;
  Requests requests;
  Sessions sessions;
  LogRelay relay;
  WatchHub watchers;
  PlanWorker planner;
  DiagnosisWorker diagnosis;
  Credentials own;  // of the executor's thread, once it serves
  bool unpublished = false;
  Enrolment enrolment;
  ChunkStore chunks;
  Executor chunk_executor;
  ExecDesk execs;
  Doorkeeper door;
  Gate gate;
  Switchboard switchboard;
  CoreBrain brain;
  std::unique_ptr<Loop> loop;
  std::unique_ptr<ControllerServer> server;
  std::thread loop_thread;
  std::string address;
  std::promise<std::vector<std::string>> join_addresses;  // known once the port is
  bool stopped = false;
};

Result<std::unique_ptr<Controller>> Controller::Start(Parts given) {
  LAUNCH_ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(given.config.listen));
  State state;
  LAUNCH_ASSIGN_OR_RETURN(const Loaded loaded, LoadState(*given.store, given.codec, state));
  const Now now{given.clock->Now(), given.clock->WallNow()};
  // Empty where the kernel does not tell: then limits follow the wall clock over a restart.
  state.live.host_boot = KernelBootId();
  state.live.limits = {.queued = given.config.max_queued,
                       .jobs_of_a_user = given.config.max_jobs_of_a_user,
                       .done = given.config.keep_jobs};
  LAUNCH_ASSIGN_OR_RETURN(const Decision opening,
                          controller::Start(state, DecodeStoredPlan, given.credentials.cluster, now,
                                            loaded.unwitnessed, loaded.position.revision));
  StorePosition position = loaded.position;

  auto running = std::make_unique<Running>(std::move(given), state.cluster.epoch);
  Running& run = *running;
  run.state = std::move(state);
  for (const auto& [name, user] : run.state.users) run.directory.Note(Put{user});
  for (const auto& [serial, deny] : run.state.denied) run.directory.Note(Put{deny});
  // Specs first: the job's record says whether it is done.
  for (const auto& [id, spec] : run.state.specs) run.directory.Note(Put{spec});
  for (const auto& [id, job] : run.state.jobs) run.directory.Note(Put{job});
  for (const auto& [id, node] : run.state.nodes) run.directory.Note(Put{node});
  for (const auto& [key, allocs] : run.state.allocs) {
    for (const auto& [node, alloc] : allocs) run.directory.Note(Put{alloc});
  }
  position.incarnation = run.state.cluster.incarnation;
  position.epoch = run.state.cluster.epoch;
  run.directory.SetPosition(position);
  const Fence fence{position.incarnation, position.epoch, position.revision};
  run.loop =
      std::make_unique<Loop>(Loop::Parts{run.brain, *run.parts.store, run.mailbox, run.switchboard,
                                         *run.parts.clock, run.parts.codec.encode},
                             position.revision, fence);
  // Nobody hears of this epoch before it is durable.
  LAUNCH_RETURN_IF_ERROR(run.loop->Commit(opening));

  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(MakeIdentityService(
      {run.gate, run.door, run.requests, run.enrolment, run.executor, *run.parts.clock}));
  services.push_back(MakeLaunchService(
      {run.gate, run.directory, run.requests, run.relay, run.watchers, run.executor,
       *run.parts.store, run.parts.credentials.secrets_key, run.chunks, run.chunk_executor,
       run.execs, run.parts.config.operator_exec}));
  services.push_back(MakeOperatorService(
      {run.gate, run.directory, run.requests, run.enrolment, *run.parts.clock, run.parts.state_dir,
       [ready = run.join_addresses.get_future().share()] { return ready.get(); }}));
  services.push_back(MakeNodeService({run.gate, run.directory, run.mailbox, run.sessions, run.relay,
                                      run.executor, run.chunks, run.execs}));
  run.loop_thread = std::thread([&run] {
    if (auto ended = run.loop->Run(); !ended && run.parts.on_failure) {
      run.parts.on_failure(ended.error());
    }
  });
  std::unique_ptr<Controller> controller(new Controller(std::move(running)));
  PosixFileSystem files;
  LAUNCH_ASSIGN_OR_RETURN(const ServingFiles serving,
                          PublishServing(files, run.parts.state_dir, run.own));
  auto server =
      ControllerServer::Start(listen, serving, std::move(services), run.door, *run.parts.clock);
  if (!server) return Unexpected(std::move(server).error());
  run.server = std::move(*server);
  run.address = LocalAddress(listen.host, run.server->port());
  run.join_addresses.set_value(run.parts.config.advertise.empty()
                                   ? DialableAddresses(listen.host, run.server->port())
                                   : run.parts.config.advertise);
  run.chunk_executor.Post([&run] { run.SweepChunks(); });
  run.executor.Post([&run] { run.RenewOwn(); });
  spdlog::info("controller.serving address={} cluster={} epoch={} revision={}",
               run.server->address(), run.parts.credentials.cluster, fence.epoch,
               run.directory.Position().revision);
  return controller;
}

Controller::Controller(std::unique_ptr<Running> running) : running_(std::move(running)) {}

Controller::~Controller() { Stop(); }

const std::string& Controller::address() const { return running_->address; }

// The loop ends first: that agents' streams close because of us is not news about the nodes.
void Controller::Stop() {
  Running& run = *running_;
  if (run.stopped) return;
  run.stopped = true;
  run.loop->Stop();
  if (run.loop_thread.joinable()) run.loop_thread.join();
  const Error stopping{ErrorCode::kUnavailable, "the controller is stopping",
                       "try again in a moment", std::nullopt};
  run.requests.Refuse(stopping);
  run.execs.CloseAll({grpc::StatusCode::UNAVAILABLE, stopping.message});
  run.sessions.CloseAll(stopping.message);
  if (run.server) run.server->Stop(run.parts.config.stop_within / 4);
  run.planner.Stop();
  run.diagnosis.Stop();
  run.chunk_executor.Stop();
  run.executor.Stop();
}

}  // namespace launch::controller
