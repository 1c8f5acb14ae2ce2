#include "proto/convert_exec.h"

#include <utility>

#include "proto/convert_value.h"
#include "proto/edge.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

constexpr int kMaxCells = 10'000;  // of a terminal, in one direction

template <class T>
T Nested(Edge& e, std::string_view field, Result<T> value) {
  if (!value) e.Require(false, field, value.error().message);
  return value ? std::move(*value) : T{};
}

Result<void> CheckPiece(std::string_view field, const std::string& bytes) {
  if (!bytes.empty() && bytes.size() <= kExecPiece) return {};
  return Fail(ErrorCode::kInvalidArgument, std::string(field) + ": has " +
                                               std::to_string(bytes.size()) + " bytes; 1 to " +
                                               std::to_string(kExecPiece) + " may be sent at once");
}

}  // namespace

pb::TerminalSize ToProto(const TerminalSize& v) {
  pb::TerminalSize m;
  m.set_rows(v.rows);
  m.set_columns(v.columns);
  return m;
}
Result<TerminalSize> FromProto(const pb::TerminalSize& m) {
  Edge e;
  TerminalSize v;
  v.rows = e.Int("rows", m.rows(), 1, kMaxCells);
  v.columns = e.Int("columns", m.columns(), 1, kMaxCells);
  return e.Done(v);
}

pb::ExecCommand ToProto(const ExecCommand& v) {
  pb::ExecCommand m;
  for (const std::string& word : v.argv) m.add_argv(word);
  if (v.terminal) *m.mutable_terminal() = ToProto(*v.terminal);
  m.set_term(v.term);
  if (v.archive) m.set_archive(*v.archive);
  return m;
}
Result<ExecCommand> FromProto(const pb::ExecCommand& m) {
  Edge e;
  ExecCommand v;
  v.argv =
      e.Each("argv", m.argv(), edge::kMaxArgs,
             [&e](const std::string& at, const std::string& word) { return e.Bytes(at, word); });
  e.Require(v.argv.empty() || !v.argv.front().empty(), "argv[0]", "is empty");
  if (m.has_terminal()) v.terminal = Nested(e, "terminal", FromProto(m.terminal()));
  v.term = e.Bytes("term", m.term(), edge::kMaxWord);
  if (m.has_archive()) v.archive = e.Path("archive", m.archive());
  return e.Done(std::move(v));
}

pb::ExecEnd ToProto(const ExecEnd& v) {
  pb::ExecEnd m;
  m.set_code(v.code);
  m.set_signal(v.signal);
  m.set_why(Utf8(v.why));
  return m;
}
Result<ExecEnd> FromProto(const pb::ExecEnd& m) {
  Edge e;
  ExecEnd v;
  v.code = e.Int("code", m.code(), 0, 255);
  v.signal = e.Int("signal", m.signal(), 0, 64);
  v.why = e.Text("why", m.why());
  return e.Done(std::move(v));
}

pb::ExecRequest_Open ToProto(const ExecCall& v) {
  pb::ExecRequest_Open m;
  m.set_job(v.job.value);
  m.set_rank(v.rank);
  *m.mutable_command() = ToProto(v.command);
  return m;
}
Result<ExecCall> FromProto(const pb::ExecRequest_Open& m) {
  Edge e;
  ExecCall v;
  v.job = e.Job("job", m.job());
  v.rank = e.RankOf("rank", m.rank());
  v.command = Nested(e, "command", FromProto(m.command()));
  return e.Done(std::move(v));
}

Result<void> CheckPassedOn(const pb::ExecInput& m) {
  switch (m.body_case()) {
    case pb::ExecInput::kData:
      return CheckPiece("data", m.data());
    case pb::ExecInput::kEnd:
      return {};
    case pb::ExecInput::kSize:
      LAUNCH_RETURN_IF_ERROR(FromProto(m.size()));
      return {};
    case pb::ExecInput::kCommand:
    case pb::ExecInput::BODY_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "input: is neither data, nor their end, nor a size");
}

Result<void> CheckPassedOn(const pb::ExecOutput& m) {
  switch (m.body_case()) {
    case pb::ExecOutput::kOut:
      return CheckPiece("out", m.out());
    case pb::ExecOutput::kErr:
      return CheckPiece("err", m.err());
    case pb::ExecOutput::kEnd:
      LAUNCH_RETURN_IF_ERROR(FromProto(m.end()));
      return {};
    case pb::ExecOutput::BODY_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "output: is not set");
}

}  // namespace launch
