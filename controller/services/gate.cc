#include "controller/services/gate.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include "common/units.h"

namespace launch::controller {
namespace {

// TLS has verified the chain; here the certificate is only read.
Result<CertificateFacts> PeerCertificate(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) {
    return Fail(ErrorCode::kPermissionDenied, "no client certificate");
  }
  const auto pem = auth->FindPropertyValues("x509_pem_cert");
  if (pem.size() != 1) return Fail(ErrorCode::kPermissionDenied, "no client certificate");
  auto facts = ReadCertificate(std::string_view(pem[0].data(), pem[0].size()));
  if (!facts) {
    return Fail(ErrorCode::kPermissionDenied,
                "the client certificate names nobody: " + facts.error().message);
  }
  return facts;
}

}  // namespace

Result<void> Gate::CheckCertificate(const CertificateFacts& facts) const {
  const std::string who = ToUri(facts.identity);
  if (facts.identity.cluster != cluster_) {
    return Fail(ErrorCode::kPermissionDenied, "you are " + who + "; this is cluster " + cluster_,
                "join this cluster, or use the address of yours");
  }
  if (const auto denied = directory_.WhyDenied(facts)) {
    return Fail(ErrorCode::kPermissionDenied,
                "the certificate of " + who + " was revoked: " + *denied,
                "join again with a new token");
  }
  // TLS looked at the dates when the connection began, which may be long ago.
  const WallTime now = clock_.WallNow();
  if (now > facts.not_after) {
    return Fail(ErrorCode::kPermissionDenied,
                "the certificate of " + who + " expired " +
                    FormatDurationShort(now - facts.not_after) + " ago",
                "connect again if it was renewed since; else join again with a new token, or set "
                "the clock of the controller's host");
  }
  return {};
}

Result<Admitted> Gate::Admit(const grpc::ServerContextBase& context,
                             std::string_view method) const {
  LAUNCH_ASSIGN_OR_RETURN(CertificateFacts facts, PeerCertificate(context));
  if (auto good = CheckCertificate(facts); !good) {
    door_.Refused(context.peer(), clock_.Now());
    return Unexpected(std::move(good).error());
  }
  Admitted admitted;
  admitted.identity = std::move(facts.identity);
  admitted.serial = std::move(facts.serial);
  const Identity& who = admitted.identity;
  if (!door_.Proved(context.peer(), ToUri(who))) {
    return Fail(ErrorCode::kResourceExhausted,
                ToUri(who) + " has " + std::to_string(door_.limits().of_identity) +
                    " connections to the controller, the most of one user or node",
                "end some of the programs that hold them, as `launch logs -f` and `launch wait`");
  }
  if (who.role == "node") {
    admitted.role = Role::kNode;
  } else if (who.role == "join") {
    admitted.role = Role::kJoin;
  } else if (who.role == "user") {
    const bool is_operator = directory_.IsOperator(UserName{who.name});
    admitted.role = is_operator ? Role::kOperator : Role::kUser;
    admitted.caller = Caller{UserName{who.name}, is_operator};
  } else {
    return Fail(ErrorCode::kPermissionDenied, "you are " + ToUri(who) + ", which calls nobody");
  }
  if (auto allowed = CheckAccess(method, admitted.role, who); !allowed) {
    spdlog::warn("access.denied method={} who={} role={}", method, ToUri(who),
                 ToString(admitted.role));
    const std::string call(method.substr(method.find('.', 8) + 1));
    (void)mailbox_.Push(event::Denied{who.role + "/" + who.name, "may not call " + call, {}});
    return Unexpected(std::move(allowed).error());
  }
  return admitted;
}

Result<void> Gate::MayWith(const Caller& caller, JobAct act, JobId job) const {
  const auto owner = directory_.OwnerOf(job);
  if (owner ? MayDo(act, caller, *owner) : caller.is_operator) return {};
  (void)mailbox_.Push(event::Denied{"user/" + caller.user.value,
                                    "may not " + std::string(NameOf(act)) + " it", job});
  return Unexpected(NotYourJob(caller, job));
}

}  // namespace launch::controller
