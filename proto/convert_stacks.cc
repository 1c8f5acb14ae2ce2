// Where ranks stand, as agents saw it.
#include <algorithm>
#include <climits>

#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/observed.h"
#include "proto/value.pb.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

constexpr int kMostProcesses = 64;  // of one rank
constexpr int kMostFrames = 128;    // of one process

}  // namespace

pb::StackFrame ToProto(const StackFrame& v) {
  pb::StackFrame m;
  m.set_function(Utf8(v.function));
  m.set_file(Utf8(v.file));
  m.set_line(std::max(v.line, 0));
  return m;
}
Result<StackFrame> FromProto(const pb::StackFrame& m) {
  Edge e;
  StackFrame v;
  v.function = e.Text("function", m.function());
  v.file = e.Text("file", m.file());
  v.line = e.Int("line", m.line(), 0, INT_MAX);
  return e.Done(std::move(v));
}

pb::ProcessStack ToProto(const ProcessStack& v) {
  pb::ProcessStack m;
  m.set_pid(observed::Count(v.pid));
  // RANK of a process is whatever its program made of it.
  if (v.rank && *v.rank >= 0 && *v.rank < edge::kMaxRanks) m.set_rank(*v.rank);
  m.set_name(Utf8(v.name));
  m.set_state(Utf8(v.state));
  m.set_source(Utf8(v.source));
  m.set_syscall(Utf8(v.syscall));
  observed::Each(v.frames, kMostFrames,
                 [&](const StackFrame& frame) { *m.add_frames() = ToProto(frame); });
  observed::Each(v.kernel, kMostFrames,
                 [&](const std::string& function) { m.add_kernel(Utf8(function)); });
  return m;
}
Result<ProcessStack> FromProto(const pb::ProcessStack& m) {
  Edge e;
  ProcessStack v;
  v.pid = e.Int64("pid", m.pid(), 0);
  if (m.has_rank()) v.rank = e.RankOf("rank", m.rank());
  v.name = e.Text("name", m.name());
  v.state = e.Text("state", m.state());
  v.source = e.Text("source", m.source());
  v.frames = e.Values("frames", m.frames(), kMostFrames);
  v.syscall = e.Text("syscall", m.syscall());
  v.kernel = e.Texts("kernel", m.kernel(), kMostFrames);
  return e.Done(std::move(v));
}

pb::RankStacks ToProto(const RankStacks& v) {
  pb::RankStacks m;
  *m.mutable_key() = ToProto(v.key);
  m.set_rank(v.rank);
  observed::Each(v.processes, kMostProcesses,
                 [&](const ProcessStack& process) { *m.add_processes() = ToProto(process); });
  m.set_why(Utf8(v.why));
  return m;
}
Result<RankStacks> FromProto(const pb::RankStacks& m) {
  Edge e;
  RankStacks v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  v.processes = e.Values("processes", m.processes(), kMostProcesses);
  v.why = e.Text("why", m.why());
  return e.Done(std::move(v));
}

}  // namespace launch
