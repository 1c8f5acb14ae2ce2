#include "cli/unreachable.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace launch {
namespace {

template <std::size_t N>
bool SaysAny(std::string text, const std::array<std::string_view, N>& words) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

}  // namespace

Error ExplainUnreachable(Error error) {
  // As BoringSSL writes them (TLSV1_ALERT_UNKNOWN_CA) and as OpenSSL does (tlsv1 alert unknown ca).
  static constexpr std::array<std::string_view, 5> kDistrust = {"certificate", "unknown_ca",
                                                                "unknown ca", " alert ", "_alert_"};
  static constexpr std::array<std::string_view, 2> kNoHandshake = {"handshake", "settings frame"};
  static constexpr std::array<std::string_view, 3> kClosed = {"socket closed", "connection reset",
                                                              "broken pipe"};
  if (error.code != ErrorCode::kUnavailable) return error;
  const std::string text = error.message;
  if (SaysAny(text, kDistrust)) {
    error.message = "certificates do not match: " + text;
    error.hint =
        "these credentials belong to another cluster or have expired; run `launch login`, "
        "or check --controller and --credentials";
  } else if (SaysAny(text, kNoHandshake)) {
    error.message = "the controller does not answer: " + text;
    error.hint =
        "it is stopped, overloaded or just restarting, or something else listens at this address: "
        "try again, then check --controller";
  } else if (SaysAny(text, kClosed)) {
    error.message = "connection closed by the other side: " + text;
    error.hint =
        "either it is just restarting, or it does not accept this certificate: "
        "check --credentials, or run `launch login`";
  } else {
    error.message = "controller unreachable: " + text;
    error.hint = "is it running? for the cluster on this machine: `launch dev up`";
  }
  return error;
}

bool IsUnanswered(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
}

bool MayHaveArrived(const Error& error) {
  static constexpr std::array<std::string_view, 1> kNeverSent = {
      "failed to connect to all addresses"};
  return IsUnanswered(error) && !SaysAny(error.message, kNeverSent);
}

Error OutcomeUnknown(Error error) {
  error.message += "; whether the job was queued is unknown";
  error.hint = "`launch queue` shows whether it is there";
  return error;
}

Error WithKey(Error error, const std::string& key) {
  if (!IsUnanswered(error)) return error;
  if (!error.hint.empty()) error.hint += "; ";
  error.hint += "the same command with `--idempotency-key " + key + "` makes no second job";
  return error;
}

}  // namespace launch
