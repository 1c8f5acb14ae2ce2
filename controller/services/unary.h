// What every unary handler does before and after its own work.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "controller/core/effect.h"
#include "controller/services/gate.h"
#include "proto/convert_error.h"
#include "proto/convert_user.h"

namespace launch::controller {

inline constexpr std::size_t kUserMessageBytes = 1 << 20;

inline grpc::ServerUnaryReactor* FinishWith(grpc::CallbackServerContext* context,
                                            const grpc::Status& status) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}
inline grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const Error& error) {
  return FinishWith(context, ToStatus(error));
}

template <class Request>
Result<void> CheckSize(const Request& request) {
  if (request.ByteSizeLong() <= kUserMessageBytes) return {};
  return Fail(
      ErrorCode::kResourceExhausted,
      "the request has " + std::to_string(request.ByteSizeLong()) + " bytes; 1 MiB is the limit",
      "put large values into files on the nodes");
}

// Admits the caller and validates the request: `call` is what the wire cannot make invalid.
template <class Call, class Request>
Result<std::pair<Admitted, Call>> Accept(const Gate& gate, grpc::CallbackServerContext* context,
                                         std::string_view method, const Request& request) {
  LAUNCH_ASSIGN_OR_RETURN(Admitted admitted, gate.Admit(*context, method));
  LAUNCH_RETURN_IF_ERROR(CheckSize(request));
  LAUNCH_ASSIGN_OR_RETURN(Call call, FromProto(request));
  return std::pair<Admitted, Call>(std::move(admitted), std::move(call));
}

// Finishes `reactor` with the core's answer; `use` fills the reply from its one expected kind.
template <class Body, class Use>
auto AnswerWith(grpc::ServerUnaryReactor* reactor, Use use) {
  return [reactor, use = std::move(use)](Result<ReplyBody> body) {
    if (!body) {
      reactor->Finish(ToStatus(body.error()));
    } else if (auto* expected = std::get_if<Body>(&*body)) {
      use(std::move(*expected));
      reactor->Finish(grpc::Status::OK);
    } else {
      reactor->Finish(grpc::Status(grpc::StatusCode::INTERNAL, "an answer of another kind"));
    }
  };
}

}  // namespace launch::controller
