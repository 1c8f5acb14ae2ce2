// The one error type of the product: what went wrong, where, and what the user can do about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace launch {

// Codes are stable: `proto/convert` maps them to gRPC codes, `cli` maps them to exit codes.
enum class ErrorCode {
  kInvalidArgument,     // bad file, flag or message; exit 2
  kCannotFit,           // no known node could ever run it; exit 3
  kPreflightFailed,     // known facts forbid the start; exit 4
  kUnavailable,         // the controller cannot be reached; exit 5
  kPermissionDenied,    // who you are does not allow it; exit 6
  kNotFound,            // exit 2
  kAlreadyExists,       // same key, other content; exit 2
  kFailedPrecondition,  // right request, wrong state; exit 2
  kConflict,            // a compare failed or a newer owner exists
  kResourceExhausted,   // full queue, full disk; retry later; exit 5
  kDeadlineExceeded,    // exit 124
  kUnimplemented,       // known, not in this version; exit 2
  kDataLoss,            // corrupt or torn data
  kIo,                  // a system call failed
  kInternal,
};

// Position in an input the user wrote. Lines and columns count from 1; 0 means unknown.
struct Where {
  std::string file;
  int line = 0;
  int column = 0;
  std::string field;  // dotted path of the key, e.g. "batch.global"
  friend bool operator==(const Where&, const Where&) = default;
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what and where; no final period
  std::string hint;     // what to do; may be empty
  std::optional<Where> where;
  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

using Unexpected = tl::unexpected<Error>;

// Fail(code, message[, hint]) is the only way errors are made, so that call sites read alike.
[[nodiscard]] inline Unexpected Fail(ErrorCode code, std::string message, std::string hint = {}) {
  return Unexpected(Error{code, std::move(message), std::move(hint), std::nullopt});
}
[[nodiscard]] inline Unexpected Fail(ErrorCode code, std::string message, std::string hint,
                                     Where where) {
  return Unexpected(Error{code, std::move(message), std::move(hint), std::move(where)});
}

// Error of the last system call: `what` names the call and its object ("open /x/y").
[[nodiscard]] Error ErrnoError(std::string_view what, int errno_value);
[[nodiscard]] inline Unexpected FailErrno(std::string_view what, int errno_value) {
  return Unexpected(ErrnoError(what, errno_value));
}

std::string_view ErrorCodeName(ErrorCode code);  // "INVALID_ARGUMENT"
int ExitCodeOf(ErrorCode code);                  // as said at ErrorCode; 1 where it says none
std::string FormatError(const Error& error);     // "file:3:7: message\n  hint: ..."

// Nearest of `names` to `given` by edit distance, or empty when nothing is near enough to offer.
std::string NearestName(std::string_view given, const std::vector<std::string>& names);

namespace internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line,
                              std::string_view detail);
}  // namespace internal

}  // namespace launch

// Invariant of ours, never external input: aborts with the condition and `detail`.
#define LAUNCH_CHECK(condition, detail)                                                          \
  do {                                                                                           \
    if (!(condition)) ::launch::internal::CheckFailed(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)

// Unwraps a Result into `lhs`, or returns its error from the enclosing function.
#define LAUNCH_CONCAT_INNER(a, b) a##b
#define LAUNCH_CONCAT(a, b) LAUNCH_CONCAT_INNER(a, b)
#define LAUNCH_ASSIGN_OR_RETURN(lhs, expr) \
  LAUNCH_ASSIGN_OR_RETURN_IMPL(LAUNCH_CONCAT(launch_result_, __LINE__), lhs, expr)
#define LAUNCH_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)             \
  auto tmp = (expr);                                             \
  if (!tmp) return ::launch::Unexpected(std::move(tmp).error()); \
  lhs = std::move(*tmp)
#define LAUNCH_RETURN_IF_ERROR(expr)                                 \
  do {                                                               \
    if (auto launch_status = (expr); !launch_status)                 \
      return ::launch::Unexpected(std::move(launch_status).error()); \
  } while (false)
