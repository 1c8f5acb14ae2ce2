#include "controller/services/identity_service.h"

#include <utility>

#include "common/pki.h"
#include "common/version.h"
#include "controller/services/unary.h"
#include "proto/convert_user.h"
#include "proto/launch.grpc.pb.h"

namespace launch::controller {
namespace {

class IdentityService final : public pb::Identity::CallbackService {
 public:
  explicit IdentityService(const IdentityServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const pb::JoinRequest* request, pb::JoinReply* reply) override {
    auto accepted = Accept<JoinCall>(parts_.gate, context, "/launch.v1.Identity/Join", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    auto joiner = ParseJoiner(who.identity);
    if (!joiner) return Refuse(context, joiner.error());
    if (!parts_.door.MayJoin(who.serial, parts_.clock.Now())) {
      return Refuse(context, Error{ErrorCode::kResourceExhausted, "too many joins with this token",
                                   "wait a minute, then join again", std::nullopt});
    }
    // A token is spent on what can be signed only.
    if (auto csr = CheckCsr(call.csr_pem); !csr) return Refuse(context, csr.error());

    event::UseToken event;
    event.serial = who.serial;
    event.role = joiner->role;
    event.name = joiner->name;
    event.new_serial = NewSerial();
    event.rejoin = call.rejoin;
    const std::string serial = event.new_serial;
    return Issue(context, ToUri(who.identity), std::move(event),
                 {*joiner, serial, std::move(call.csr_pem)}, reply);
  }

  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const pb::JoinRequest* request, pb::JoinReply* reply) override {
    auto accepted = Accept<JoinCall>(parts_.gate, context, "/launch.v1.Identity/Renew", *request);
    if (!accepted) return Refuse(context, accepted.error());
    auto& [who, call] = *accepted;
    if (auto csr = CheckCsr(call.csr_pem); !csr) return Refuse(context, csr.error());
    event::Renew event;
    event.serial = who.serial;
    event.role = who.identity.role;
    event.name = who.identity.name;
    event.new_serial = NewSerial();
    const std::string serial = event.new_serial;
    return Issue(context, ToUri(who.identity), std::move(event),
                 {{who.identity.role, who.identity.name}, serial, std::move(call.csr_pem)}, reply);
  }

  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context, const pb::WhoAmIRequest*,
                                   pb::WhoAmIReply* reply) override {
    auto who = parts_.gate.Admit(*context, "/launch.v1.Identity/WhoAmI");
    if (!who) return Refuse(context, who.error());
    reply->set_identity("/" + who->identity.role + "/" + who->identity.name);
    reply->set_is_operator(who->caller.is_operator);
    reply->set_cluster(parts_.enrolment.cluster());
    reply->set_version(std::string(Version()));
    return FinishWith(context, grpc::Status::OK);
  }

 private:
  struct Wanted {
    Joiner member;
    std::string serial;
    std::string csr_pem;
  };
  // Signs what is wanted when the core has committed `event`.
  template <class E>
  grpc::ServerUnaryReactor* Issue(grpc::CallbackServerContext* context, const std::string& caller,
                                  E event, Wanted wanted, pb::JoinReply* reply) {
    auto* reactor = context->DefaultReactor();
    // Of the time of the question: what is revoked after that covers it.
    auto sign = [this, reactor, reply, wanted = std::move(wanted), asked = parts_.clock.WallNow()] {
      const auto& [member, serial, csr_pem] = wanted;
      auto signed_now = parts_.enrolment.SignJoined(csr_pem, member, serial, asked);
      if (!signed_now) {
        reactor->Finish(ToStatus(signed_now.error()));
        return;
      }
      reply->set_certificate_pem(signed_now->pem);
      reply->set_ca_pem(parts_.enrolment.ca_pem());
      reply->set_cluster(parts_.enrolment.cluster());
      reply->set_identity("/" + member.role + "/" + member.name);
      reactor->Finish(grpc::Status::OK);
    };
    parts_.requests.Ask(caller, std::move(event),
                        [this, reactor, sign = std::move(sign)](Result<ReplyBody> body) {
                          if (!body) {
                            reactor->Finish(ToStatus(body.error()));
                          } else {
                            parts_.executor.Post(sign);  // the loop has better things to do
                          }
                        });
    return reactor;
  }

  const IdentityServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeIdentityService(const IdentityServiceParts& parts) {
  return std::make_unique<IdentityService>(parts);
}

}  // namespace launch::controller
