// Hold, release, requeue and update on the wire.
#include <utility>

#include "proto/convert_user.h"
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/launch.pb.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {
LAUNCH_CONVERT_ENUM(JobAction, kUpdate)
}  // namespace

pb::ChangeRequest ToProto(const ChangeCall& v) {
  pb::ChangeRequest m;
  for (const JobId& job : v.jobs) m.add_jobs(job.value);
  m.set_action(ToProto(v.change.action));
  m.set_hold(v.change.hold);
  if (v.change.priority) m.set_priority(*v.change.priority);
  if (v.change.time_limit) m.set_time_limit_ms(v.change.time_limit->count());
  if (v.change.begin) m.set_begin_ms(ToMs(*v.change.begin));
  if (v.change.nodes) *m.mutable_nodes() = ToProto(*v.change.nodes);
  return m;
}
Result<ChangeCall> FromProto(const pb::ChangeRequest& m) {
  Edge e;
  ChangeCall v;
  e.Require(m.jobs_size() > 0, "jobs", "is empty");
  v.jobs = e.Each("jobs", m.jobs(), edge::kMaxItems,
                  [&](const std::string& at, std::uint64_t job) { return e.Job(at, job); });
  e.RequireDistinct("jobs", v.jobs);
  // A function of launch.proto's own: Edge::Value finds those of value.proto only.
  const Result<JobAction> action = FromProto(m.action());
  e.Require(action.has_value(), "action", action ? "" : action.error().message);
  if (action) v.change.action = *action;
  v.change.hold = m.hold();
  if (m.has_priority()) v.change.priority = e.Int("priority", m.priority(), 0, 100);
  if (m.has_time_limit_ms()) {
    v.change.time_limit = e.Duration("time_limit_ms", m.time_limit_ms());
    e.Require(m.time_limit_ms() > 0, "time_limit_ms", "is zero");
  }
  if (m.has_begin_ms()) v.change.begin = e.Wall("begin_ms", m.begin_ms());
  if (m.has_nodes()) v.change.nodes = e.Value("nodes", m.nodes());
  return e.Done(std::move(v));
}

pb::ChangeReply ToChangeReply(const std::vector<ChangeAnswer>& v) {
  pb::ChangeReply m;
  for (const ChangeAnswer& answer : v) {
    pb::ChangeReply::Result& result = *m.add_results();
    result.set_job(answer.job.value);
    result.set_error(Utf8(answer.error));
    result.set_says(Utf8(answer.says));
  }
  return m;
}
Result<std::vector<ChangeAnswer>> FromProto(const pb::ChangeReply& m) {
  Edge e;
  auto v = e.Each("results", m.results(), edge::kMaxItems,
                  [&](const std::string& at, const pb::ChangeReply::Result& result) {
                    ChangeAnswer answer;
                    answer.job = e.Job(at + ".job", result.job());
                    answer.error = e.Text(at + ".error", result.error());
                    answer.says = e.Text(at + ".says", result.says());
                    return answer;
                  });
  return e.Done(std::move(v));
}

}  // namespace launch
