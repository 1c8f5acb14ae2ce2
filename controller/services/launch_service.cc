#include "controller/services/launch_service.h"

#include <algorithm>
#include <utility>

#include "common/pki.h"
#include "controller/services/chunk_calls.h"
#include "controller/services/exec_stream.h"
#include "controller/services/log_stream.h"
#include "controller/services/unary.h"
#include "controller/services/watch_stream.h"
#include "proto/convert_user.h"
#include "proto/convert_value.h"
#include "proto/launch.grpc.pb.h"

namespace launch::controller {
namespace {

// Of one user, of 1 MiB each: the command sends one after the other.
constexpr int kMostPuts = 64;

class LaunchService final : public pb::Launch::CallbackService {
 public:
  explicit LaunchService(const LaunchServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const pb::SubmitRequest* request,
                                   pb::SubmitReply* reply) override {
    auto accepted = Accept<SubmitCall>(parts_.gate, context, "/launch.v1.Launch/Submit", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    event::Submit event;
    event.caller = who.caller;
    event.idempotency_key = call.idempotency_key;
    event.digest = DigestOf(call, parts_.secret_key);
    event.spec = std::move(call.spec);
    event.source = std::move(call.source);
    event.context = std::move(call.context);
    event.context.user = who.caller.user.value;  // the certificate says who, not the message
    event.force = call.force;
    event.hold = call.hold;
    for (auto& [name, value] : call.secrets) {
      auto sealed = Seal(parts_.secret_key, value);
      if (!sealed) return Refuse(context, sealed.error());
      event.secrets.emplace_back(std::move(name), std::move(*sealed));
    }
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(
        who.caller.user.value, std::move(event),
        AnswerWith<reply::Submitted>(reactor, [reply](reply::Submitted body) {
          *reply = ToProto(SubmitAnswer{body.job, body.known, body.state, std::move(body.answer),
                                        body.first, body.elements});
        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const pb::PlanRequest* request, pb::PlanReply* reply) override {
    auto accepted = Accept<PlanCall>(parts_.gate, context, "/launch.v1.Launch/Plan", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    call.context.user = who.caller.user.value;
    event::PlanQuery event{
        {}, who.caller, std::move(call.spec), std::move(call.context), std::move(call.questions)};
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(
        who.caller.user.value, std::move(event),
        AnswerWith<PlanAnswer>(reactor, [reply](PlanAnswer body) { *reply = ToPlanReply(body); }),
        [context] { return context->IsCancelled(); });
    return reactor;
  }

  grpc::ServerUnaryReactor* Jobs(grpc::CallbackServerContext* context,
                                 const pb::JobsRequest* request, pb::JobsReply* reply) override {
    auto accepted = Accept<JobsCall>(parts_.gate, context, "/launch.v1.Launch/Jobs", *request);
    if (!accepted) return Refuse(context, accepted.error());
    const auto& [who, call] = *accepted;
    event::ListJobs event{{}, who.caller, call.all_users, call.include_done, call.array};
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(
        who.caller.user.value, std::move(event),
        AnswerWith<reply::Jobs>(reactor, [reply, caller = who.caller](reply::Jobs body) {
          for (JobView& job : body.jobs) job = ForCaller(std::move(job), caller);
          *reply = ToJobsReply(body.jobs);
        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* Job(grpc::CallbackServerContext* context, const pb::JobRequest* request,
                                pb::JobReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Launch/Job");
    if (!who) return Refuse(context, who.error());
    const JobId job{request->job()};
    if (auto may = parts_.gate.MayWith(who->caller, JobAct::kSeeInFull, job); !may) {
      return Refuse(context, may.error());
    }
    event::GetJob event{{}, who->caller, job};
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who->caller.user.value, std::move(event),
                        AnswerWith<JobView>(reactor, [reply, caller = who->caller](JobView body) {
                          *reply = ToJobReply(ForCaller(std::move(body), caller));
                        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const pb::CancelRequest* request,
                                   pb::CancelReply* reply) override {
    auto accepted = Accept<CancelCall>(parts_.gate, context, "/launch.v1.Launch/Cancel", *request);
    if (!accepted) return Refuse(context, accepted.error());
    const auto& [who, call] = *accepted;
    event::Cancel event{{}, who.caller, {}};
    std::vector<CancelAnswer> refused;
    for (const JobId job : call.jobs) {
      if (auto may = parts_.gate.MayWith(who.caller, JobAct::kCancel, job); may) {
        event.jobs.push_back(job);
      } else {
        refused.push_back({job, false, FormatError(may.error()), {}});
      }
    }
    auto* reactor = context->DefaultReactor();
    auto use = [reply, refused, order = call.jobs](reply::Cancelled body) {
      std::vector<CancelAnswer> answers = refused;
      for (reply::CancelResult& one : body.results) {
        answers.push_back({one.job, one.already_done,
                           one.error ? FormatError(*one.error) : std::string(),
                           std::move(one.held)});
      }
      const auto asked = [&order](JobId job) { return std::ranges::find(order, job); };
      std::ranges::sort(answers, {}, [&](const CancelAnswer& one) { return asked(one.job); });
      *reply = ToCancelReply(answers);
    };
    parts_.requests.Ask(who.caller.user.value, std::move(event),
                        AnswerWith<reply::Cancelled>(reactor, std::move(use)));
    return reactor;
  }

  grpc::ServerUnaryReactor* NoteProbe(grpc::CallbackServerContext* context,
                                      const pb::NoteProbeRequest* request,
                                      pb::NoteProbeReply*) override {
    auto accepted =
        Accept<NoteProbeCall>(parts_.gate, context, "/launch.v1.Launch/NoteProbe", *request);
    if (!accepted) return Refuse(context, accepted.error());
    const auto& [who, call] = *accepted;
    if (auto may = parts_.gate.MayWith(who.caller, JobAct::kNoteProbe, call.job); !may) {
      return Refuse(context, may.error());
    }
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value,
                        event::NoteProbe{{}, who.caller, call.job, call.point, call.network},
                        AnswerWith<reply::Done>(reactor, [](const reply::Done&) {}));
    return reactor;
  }

  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context,
                                   const pb::ChangeRequest* request,
                                   pb::ChangeReply* reply) override {
    auto accepted = Accept<ChangeCall>(parts_.gate, context, "/launch.v1.Launch/Change", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    for (const JobId job : call.jobs) {
      if (auto may = parts_.gate.MayWith(who.caller, JobAct::kUpdate, job); !may) {
        return Refuse(context, may.error());
      }
    }
    event::Change event{{}, who.caller, std::move(call.jobs), std::move(call.change)};
    auto* reactor = context->DefaultReactor();
    auto use = [reply](reply::Changed body) {
      std::vector<ChangeAnswer> answers;
      for (reply::ChangeResult& one : body.results) {
        answers.push_back(
            {one.job, one.error ? FormatError(*one.error) : std::string(), std::move(one.says)});
      }
      *reply = ToChangeReply(answers);
    };
    parts_.requests.Ask(who.caller.user.value, std::move(event),
                        AnswerWith<reply::Changed>(reactor, std::move(use)));
    return reactor;
  }

  grpc::ServerUnaryReactor* Nodes(grpc::CallbackServerContext* context, const pb::NodesRequest*,
                                  pb::NodesReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Launch/Nodes");
    if (!who) return Refuse(context, who.error());
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who->caller.user.value, event::ListNodes{{}, who->caller},
                        AnswerWith<reply::Nodes>(reactor, [reply](reply::Nodes body) {
                          *reply = ToNodesReply(body.nodes);
                        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* MissingChunks(grpc::CallbackServerContext* context,
                                          const pb::MissingChunksRequest* request,
                                          pb::MissingChunksReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Launch/MissingChunks");
    if (!who) return Refuse(context, who.error());
    return AnswerMissing(context, parts_.chunk_executor, parts_.chunks, who->caller.user, *request,
                         reply);
  }

  grpc::ServerUnaryReactor* PutChunks(grpc::CallbackServerContext* context,
                                      const pb::PutChunksRequest* request,
                                      pb::PutChunksReply*) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Launch/PutChunks");
    if (!who) return Refuse(context, who.error());
    return AnswerPut(context, parts_.chunk_executor, parts_.chunks, puts_, who->caller.user,
                     *request);
  }

  ExecUserReactor* Exec(grpc::CallbackServerContext* context) override {
    return MakeExecUserStream(parts_, context);
  }

  grpc::ServerWriteReactor<pb::WatchReply>* Watch(grpc::CallbackServerContext* context,
                                                  const pb::WatchRequest* request) override {
    auto accepted = Accept<WatchCall>(parts_.gate, context, "/launch.v1.Launch/Watch", *request);
    if (!accepted) return new RefusedStream<pb::WatchReply>(ToStatus(accepted.error()));
    return MakeWatchStream(parts_, std::move(accepted->first.caller), std::move(accepted->second));
  }

  grpc::ServerWriteReactor<pb::LogsReply>* Logs(grpc::CallbackServerContext* context,
                                                const pb::LogsRequest* request) override {
    auto accepted = Accept<LogsCall>(parts_.gate, context, "/launch.v1.Launch/Logs", *request);
    if (!accepted) return new RefusedStream<pb::LogsReply>(ToStatus(accepted.error()));
    auto& [who, call] = *accepted;
    if (auto may = parts_.gate.MayWith(who.caller, JobAct::kSeeInFull, call.job); !may) {
      return new RefusedStream<pb::LogsReply>(ToStatus(may.error()));
    }
    return MakeLogStream(parts_.relay, {std::move(who.caller), std::move(call)});
  }

 private:
  const LaunchServiceParts parts_;
  CallsOfUsers puts_{kMostPuts};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeLaunchService(const LaunchServiceParts& parts) {
  return std::make_unique<LaunchService>(parts);
}

}  // namespace launch::controller
