#include "controller/services/operator_service.h"

#include <unistd.h>

#include <utility>

#include "common/version.h"
#include "controller/services/unary.h"
#include "proto/convert_user.h"
#include "proto/launch.grpc.pb.h"

namespace launch::controller {
namespace {

class OperatorService final : public pb::Operator::CallbackService {
 public:
  explicit OperatorService(OperatorServiceParts parts) : parts_(std::move(parts)) {}

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const pb::CreateTokenRequest* request,
                                        pb::CreateTokenReply* reply) override {
    auto accepted =
        Accept<TokenCall>(parts_.gate, context, "/launch.v1.Operator/CreateToken", *request);
    if (!accepted) return Refuse(context, accepted.error());
    const auto& [who, call] = *accepted;
    auto made = parts_.enrolment.MakeToken(
        {call.role, call.name}, call.addresses.empty() ? parts_.addresses() : call.addresses,
        call.life, parts_.clock.WallNow());
    if (!made) return Refuse(context, made.error());
    event::CreateToken event;
    event.caller = who.caller;
    event.role = call.role;
    event.name = call.name;
    event.serial = made->serial;
    event.expires = made->expires;
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value, std::move(event),
                        AnswerWith<reply::Token>(reactor, [reply, made = *made](reply::Token) {
                          reply->set_token(made.line);
                          reply->set_serial(made.serial);
                        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const pb::ListTokensRequest*,
                                       pb::ListTokensReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Operator/ListTokens");
    if (!who) return Refuse(context, who.error());
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who->caller.user.value, event::ListTokens{{}, who->caller},
                        AnswerWith<reply::Tokens>(reactor, [reply](reply::Tokens body) {
                          for (auto& [serial, says] : body.rows) {
                            auto* row = reply->add_rows();
                            row->set_serial(std::move(serial));
                            row->set_says(std::move(says));
                          }
                        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const pb::RevokeTokenRequest* request,
                                        pb::RevokeTokenReply*) override {
    auto accepted =
        Accept<RevokeCall>(parts_.gate, context, "/launch.v1.Operator/RevokeToken", *request);
    if (!accepted) return Refuse(context, accepted.error());
    const auto& [who, call] = *accepted;
    if (call.serial.empty()) {  // else it is of a token, whatever is named beside it
      const bool is_node = !call.node.value.empty();
      auto* reactor = context->DefaultReactor();
      parts_.requests.Ask(who.caller.user.value,
                          event::RevokeMember{{},
                                              who.caller,
                                              is_node ? "node" : "user",
                                              is_node ? call.node.value : call.user.value},
                          AnswerWith<reply::Done>(reactor, [](const reply::Done&) {}));
      return reactor;
    }
    event::CreateToken event;
    event.caller = who.caller;
    event.serial = call.serial;
    event.revoke = true;
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value, std::move(event),
                        AnswerWith<reply::Token>(reactor, [](const reply::Token&) {}));
    return reactor;
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const pb::DrainRequest* request, pb::DrainReply*) override {
    auto accepted = Accept<DrainCall>(parts_.gate, context, "/launch.v1.Operator/Drain", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    event::Drain event{{}, who.caller, std::move(call.node), call.undrain, std::move(call.reason)};
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value, std::move(event),
                        AnswerWith<reply::Done>(reactor, [](const reply::Done&) {}));
    return reactor;
  }

  grpc::ServerUnaryReactor* ForgetNode(grpc::CallbackServerContext* context,
                                       const pb::ForgetNodeRequest* request,
                                       pb::ForgetNodeReply*) override {
    auto accepted =
        Accept<ForgetNodeCall>(parts_.gate, context, "/launch.v1.Operator/ForgetNode", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value,
                        event::ForgetNode{{}, who.caller, std::move(call.node)},
                        AnswerWith<reply::Done>(reactor, [](const reply::Done&) {}));
    return reactor;
  }

  grpc::ServerUnaryReactor* FenceNode(grpc::CallbackServerContext* context,
                                      const pb::FenceNodeRequest* request,
                                      pb::FenceNodeReply*) override {
    auto accepted =
        Accept<FenceNodeCall>(parts_.gate, context, "/launch.v1.Operator/FenceNode", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(who.caller.user.value,
                        event::FenceNode{{}, who.caller, std::move(call.node)},
                        AnswerWith<reply::Done>(reactor, [](const reply::Done&) {}));
    return reactor;
  }

  grpc::ServerUnaryReactor* Quarantine(grpc::CallbackServerContext* context,
                                       const pb::QuarantineRequest* request,
                                       pb::QuarantineReply* reply) override {
    auto accepted =
        Accept<QuarantineCall>(parts_.gate, context, "/launch.v1.Operator/Quarantine", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    const auto action = call.action == "release"  ? QuarantineAction::kRelease
                        : call.action == "retest" ? QuarantineAction::kRetest
                                                  : QuarantineAction::kList;
    auto* reactor = context->DefaultReactor();
    parts_.requests.Ask(
        who.caller.user.value, event::Quarantine{{}, who.caller, action, std::move(call.what)},
        AnswerWith<reply::Quarantined>(reactor, [reply](reply::Quarantined body) {
          std::vector<QuarantinedGpu> rows;
          for (GpuRecord& gpu : body.gpus) {
            const bool known = gpu.key.job.value > 0;
            rows.push_back({gpu.uuid, gpu.node, std::move(gpu.why),
                            known ? std::optional(gpu.key) : std::nullopt, gpu.since});
          }
          *reply = ToQuarantineReply(rows);
        }));
    return reactor;
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const pb::StatusRequest*,
                                   pb::StatusReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Operator/Status");
    if (!who) return Refuse(context, who.error());
    const StorePosition at = parts_.directory.Position();
    reply->set_cluster(parts_.enrolment.cluster());
    reply->set_version(std::string(Version()));
    reply->set_revision(at.revision);
    reply->set_epoch(at.epoch);
    reply->set_jobs(parts_.directory.Jobs());
    reply->set_nodes(parts_.directory.Nodes());
    reply->set_pid(::getpid());
    reply->set_state_dir(parts_.state_dir);
    return FinishWith(context, grpc::Status::OK);
  }

 private:
  const OperatorServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeOperatorService(OperatorServiceParts parts) {
  return std::make_unique<OperatorService>(std::move(parts));
}

}  // namespace launch::controller
