#include "common/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <system_error>

namespace launch {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_code;
};
constexpr CodeRow kCodes[] = {
    {ErrorCode::kInvalidArgument, "INVALID_ARGUMENT", 2},
    {ErrorCode::kCannotFit, "CANNOT_FIT", 3},
    {ErrorCode::kPreflightFailed, "PREFLIGHT_FAILED", 4},
    {ErrorCode::kUnavailable, "UNAVAILABLE", 5},
    {ErrorCode::kPermissionDenied, "PERMISSION_DENIED", 6},
    {ErrorCode::kNotFound, "NOT_FOUND", 2},
    {ErrorCode::kAlreadyExists, "ALREADY_EXISTS", 2},
    {ErrorCode::kFailedPrecondition, "FAILED_PRECONDITION", 2},
    {ErrorCode::kConflict, "CONFLICT", 1},
    {ErrorCode::kResourceExhausted, "RESOURCE_EXHAUSTED", 5},
    {ErrorCode::kDeadlineExceeded, "DEADLINE_EXCEEDED", 124},
    {ErrorCode::kUnimplemented, "UNIMPLEMENTED", 2},
    {ErrorCode::kDataLoss, "DATA_LOSS", 1},
    {ErrorCode::kIo, "IO", 1},
    {ErrorCode::kInternal, "INTERNAL", 1},
};

const CodeRow& RowOf(ErrorCode code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return row;
  }
  return kCodes[std::size(kCodes) - 1];
}

// Insertions, deletions, substitutions and swaps of neighbours: `nodse` is one away from `nodes`.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> above;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

Error ErrnoError(std::string_view what, int errno_value) {
  ErrorCode code = ErrorCode::kIo;
  std::string hint;
  switch (errno_value) {
    case ENOENT:
      code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermissionDenied;
      break;
    case EEXIST:
      code = ErrorCode::kAlreadyExists;
      break;
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::kResourceExhausted;
      hint = "free space on that file system";
      break;
    default:
      break;
  }
  return Error{code, std::string(what) + ": " + std::generic_category().message(errno_value), hint,
               std::nullopt};
}

std::string_view ErrorCodeName(ErrorCode code) { return RowOf(code).name; }
int ExitCodeOf(ErrorCode code) { return RowOf(code).exit_code; }

std::string FormatError(const Error& error) {
  std::string text;
  if (error.where) {
    const Where& where = *error.where;
    text += where.file;
    if (where.line > 0) {
      text += ":" + std::to_string(where.line);
      if (where.column > 0) text += ":" + std::to_string(where.column);
    }
    if (!text.empty()) text += ": ";
    const std::string field = where.field + ": ";  // errors of messages say it themselves
    if (!where.field.empty() && !error.message.starts_with(field)) text += field;
  }
  text += error.message;
  if (!error.hint.empty()) text += "\n  hint: " + error.hint;
  return text;
}

std::string NearestName(std::string_view given, const std::vector<std::string>& names) {
  const std::size_t limit = std::max<std::size_t>(1, given.size() / 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& name : names) {
    const std::size_t distance = EditDistance(given, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

namespace internal {

void CheckFailed(const char* condition, const char* file, int line, std::string_view detail) {
  std::fprintf(stderr, "invariant broken: %s at %s:%d: %.*s\n", condition, file, line,
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace internal
}  // namespace launch
