#include "cli/up/remote.h"

namespace launch::up {

std::string LastWords(std::string_view text) {
  constexpr std::size_t kMost = 600;
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "it said nothing";
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.size() > kMost ? text.size() - kMost : 0));
}

Result<void> MustBeDone(const RemoteAnswer& answer, const std::string& what) {
  if (answer.code == 0) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              what + " failed: " + LastWords(answer.errors.empty() ? answer.output : answer.errors),
              "run this again when that is repaired");
}

Result<RemoteAnswer> Must(Remote& remote, const std::string& command, std::string_view input,
                          Millis deadline, const std::string& what) {
  LAUNCH_ASSIGN_OR_RETURN(RemoteAnswer answer, remote.Run(command, input, deadline));
  LAUNCH_RETURN_IF_ERROR(MustBeDone(answer, what));
  return answer;
}

}  // namespace launch::up
