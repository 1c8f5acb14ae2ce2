#include "cli/log_stream.h"

#include <cstdio>

#include "cli/render_json.h"
#include "common/clock.h"

namespace launch {
namespace {

// Of silence: a log may be of any length. One that is followed may say nothing for long.
constexpr Millis kReadLimit{120'000};
constexpr Millis kFollowLimit{3'600'000};
constexpr int kReconnects = 10;
constexpr Millis kLasted{10'000};  // a connection that was one

// What was there to read, so that nothing is not taken for silence of the program.
struct Readable {
  bool heard = false;  // of any rank
  bool any = false;    // bytes, or a log that is known to be empty
  std::string unread;  // why the first that was not read was not

  void Take(const LogPiece& piece) {
    heard = true;
    if (std::holds_alternative<LogChunk>(piece)) any = true;
    const auto* end = std::get_if<LogEnd>(&piece);
    if (end == nullptr) return;
    if (end->complete) {
      any = true;
    } else if (unread.empty() && !end->error.empty()) {
      unread = "rank " + std::to_string(end->rank) + ": " + CleanLine(end->error, false);
    }
  }
};

}  // namespace

Result<void> StreamLogs(const App& app, Client& client, const LogsCall& call, LogStyle style) {
  const Screen screen = app.ScreenNow();
  LogPrinter::Options how;
  how.terminal = app.StdoutIsTerminal() && call.follow && !style.json;
  how.colour = screen.colour;
  how.raw = style.raw;
  how.prefix = style.prefix;
  how.errors = style.errors;
  how.since = style.since;
  if (style.json) how.form = RankLineJson;
  how.merge = !call.follow && !style.raw;
  LogPrinter printer(
      how, [&](std::string_view text) { app.OutBytes(text); },
      [&](std::string_view text) {
        if (!app.quiet) std::fwrite(text.data(), 1, text.size(), stderr);
      });
  // A controller that restarts ends the stream, not the reader: it goes on behind what is shown.
  LogsCall next = call;
  Readable readable;
  SystemClock clock;
  for (int failures = 0;; next.seen = printer.Positions()) {
    const BootTime began = clock.Now();
    const Result<void> end =
        client.ReadLogs(next, call.follow ? kFollowLimit : kReadLimit, [&](const LogPiece& piece) {
          failures = 0;
          readable.Take(piece);
          printer.Take(piece);
          return true;
        });
    if (end) break;
    const bool again = call.follow && (end.error().code == ErrorCode::kUnavailable ||
                                       end.error().code == ErrorCode::kDeadlineExceeded);
    if (!again || failures >= kReconnects) {
      printer.Finish();
      return Unexpected(end.error());
    }
    if (end.error().code == ErrorCode::kDeadlineExceeded) continue;  // the ranks said nothing
    if (clock.Now() - began > kLasted) failures = 0;                 // of a job that says nothing
    BackOff(failures++, Millis(200));
  }
  printer.Finish();
  if (!readable.any && !readable.unread.empty())
    return Fail(ErrorCode::kUnavailable, "nothing of the log can be read: " + readable.unread,
                "it is kept on the node of the rank: try again when `launch nodes` shows that one "
                "back");
  const std::string id = std::to_string(call.job.value);
  if (!readable.heard)
    app.Note("no rank of job " + id + " has begun; `launch why " + id +
             "` says what went before, and shows the output of `setup`");
  return {};
}

}  // namespace launch
