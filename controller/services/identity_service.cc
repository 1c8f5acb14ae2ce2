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
    auto* reactor = context->DefaultReactor();
    auto sign = [this, reactor, reply, joiner = *joiner, serial = event.new_serial,
                 csr = std::move(call.csr_pem)] {
      auto certificate = parts_.enrolment.SignJoined(csr, joiner, serial, parts_.clock.WallNow());
      if (!certificate) {
        reactor->Finish(ToStatus(certificate.error()));
        return;
      }
      reply->set_certificate_pem(certificate->pem);
      reply->set_ca_pem(parts_.enrolment.ca_pem());
      reply->set_cluster(parts_.enrolment.cluster());
      reply->set_identity("/" + joiner.role + "/" + joiner.name);
      reactor->Finish(grpc::Status::OK);
    };
    const std::string caller = ToUri(who.identity);
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
  const IdentityServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeIdentityService(const IdentityServiceParts& parts) {
  return std::make_unique<IdentityService>(parts);
}

}  // namespace launch::controller
