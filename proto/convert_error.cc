#include "proto/convert_error.h"

#include <algorithm>
#include <utility>

#include "common/utf8_head.h"
#include "proto/edge.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

LAUNCH_CONVERT_ENUM(ErrorCode, kInternal)

// A status travels in the response's trailers, where gRPC allows 8 KiB in all: long texts are cut,
// and the message, which both carry, is shorter still.
constexpr std::size_t kMaxMessage = 1'500;
constexpr std::size_t kMaxHint = 1'000;
constexpr std::size_t kMaxPlace = 512;

std::string Cut(const std::string& text, std::size_t max) {
  if (text.size() <= max) return Utf8(text);
  constexpr std::string_view kEllipsis = "\xE2\x80\xA6";
  return Utf8(std::string(Utf8Head(text, max - kEllipsis.size()))) + std::string(kEllipsis);
}

grpc::StatusCode StatusCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kCannotFit:
    case ErrorCode::kPreflightFailed:
    case ErrorCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case ErrorCode::kConflict:
      return grpc::StatusCode::ABORTED;
    case ErrorCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case ErrorCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case ErrorCode::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

ErrorCode CodeOfStatus(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
      return ErrorCode::kInvalidArgument;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return ErrorCode::kUnavailable;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorCode::kPermissionDenied;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS:
      return ErrorCode::kAlreadyExists;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return ErrorCode::kFailedPrecondition;
    case grpc::StatusCode::ABORTED:
      return ErrorCode::kConflict;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorCode::kResourceExhausted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kDeadlineExceeded;
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kUnimplemented;
    case grpc::StatusCode::DATA_LOSS:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kInternal;
  }
}

Result<Error> ReadDetails(const std::string& details) {
  pb::Error m;
  if (details.empty() || !m.ParseFromString(details)) {
    return Fail(ErrorCode::kDataLoss, "the status has no details of ours");
  }
  Edge e;
  Error v;
  const auto code = FromProto(m.code());
  e.Require(code.has_value(), "code", "is unknown");
  if (code) v.code = *code;
  v.message = e.Text("message", m.message());
  v.hint = e.Text("hint", m.hint());
  if (m.has_where()) {
    v.where = Where{.file = e.Text("where.file", m.where().file()),
                    .line = e.Int("where.line", m.where().line(), 0, 1 << 30),
                    .column = e.Int("where.column", m.where().column(), 0, 1 << 30),
                    .field = e.Text("where.field", m.where().field())};
  }
  return e.Done(std::move(v));
}

}  // namespace

grpc::Status ToStatus(const Error& error) {
  pb::Error m;
  m.set_code(ToProto(error.code));
  m.set_message(Cut(error.message, kMaxMessage));
  m.set_hint(Cut(error.hint, kMaxHint));
  if (error.where) {
    m.mutable_where()->set_file(error.where->file.substr(0, kMaxPlace));
    m.mutable_where()->set_line(error.where->line);
    m.mutable_where()->set_column(error.where->column);
    m.mutable_where()->set_field(Cut(error.where->field, kMaxPlace));
  }
  return grpc::Status(StatusCodeOf(error.code), m.message(), m.SerializeAsString());
}

Error FromStatus(const grpc::Status& status, std::string_view peer) {
  if (status.ok()) return Error{ErrorCode::kInternal, "an OK status was read as an error", {}, {}};
  if (auto details = ReadDetails(status.error_details())) return std::move(*details);
  Error error;
  error.code = CodeOfStatus(status.error_code());
  error.message = std::string(peer) + ": " + Utf8(status.error_message());
  if (error.code == ErrorCode::kUnavailable) {
    error.message = std::string(peer) + " cannot be reached (" + Utf8(status.error_message()) + ")";
    error.hint = "is it running, and is the address right?";
  } else if (error.code == ErrorCode::kDeadlineExceeded) {
    error.message = std::string(peer) + " did not answer in time";
  } else if (error.code == ErrorCode::kUnimplemented) {
    error.message = std::string(peer) + " does not know this call";
    error.hint = "it runs another version; compare `launch --version` on both sides";
  }
  return error;
}

}  // namespace launch
