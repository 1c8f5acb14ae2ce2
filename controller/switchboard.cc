#include "controller/switchboard.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/pki.h"
#include "common/quoted.h"
#include "controller/core/views.h"
#include "controller/plan_codec.h"

namespace launch::controller {
namespace {

// The error's own text is the first finding of that severity; a user wants to mend all at once.
void AddFindings(const std::vector<Finding>& findings, Error& error) {
  bool first = true;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError || std::exchange(first, false)) continue;
    error.hint += (error.hint.empty() ? "also " : "\n  also ") + finding.code;
    if (finding.node) error.hint += " on " + finding.node->value;
    error.hint += ": " + finding.says;
    if (!finding.remedy.empty()) error.hint += " (" + finding.remedy + ")";
  }
}

}  // namespace

void Switchboard::Committed(const Change& change) {
  for (const Record& record : change.records) parts_.directory.Note(record);
  StorePosition position = parts_.directory.Position();
  position.incarnation = change.fence.incarnation;
  position.epoch = change.fence.epoch;
  position.revision = change.fence.revision;
  if (change.last_event != 0) position.last_event = change.last_event;
  parts_.directory.SetPosition(position);
  for (const Record& record : change.records) {
    const auto* put = std::get_if<Put>(&record);
    const auto* deny = put == nullptr ? nullptr : std::get_if<DenyRecord>(&put->entity);
    if (deny != nullptr) {
      parts_.sessions.CloseSerial(deny->serial, "the certificate was revoked: " + deny->why);
    }
    if (const auto* event = std::get_if<EventRow>(&record)) {
      spdlog::info("{} subject={} text={}", event->kind, event->subject, Quoted(event->text));
    }
  }
  if (change.last_event != 0) {
    // One that waits to run tells of all that is committed until then.
    if (parts_.watchers.Announce()) parts_.executor.Post([this] { parts_.watchers.Ring(); });
  }
  for (const JobId job : change.jobs) {
    parts_.executor.Post([this, job] { parts_.relay.JobChanged(job); });
  }
}

void Switchboard::Reply(effect::Reply reply) {
  if (!reply.body) AddFindings(reply.findings, reply.body.error());
  parts_.requests.Complete(reply.request, std::move(reply.body));
}

void Switchboard::Send(SessionId session, const Fence& fence, ToNode message) {
  if (auto* prepare = std::get_if<to_node::Prepare>(&message)) {
    for (auto& [name, value] : prepare->secrets) {
      auto plain = Unseal(parts_.secret_key, value);
      if (!plain) {
        // Never start a job without what it asked for.
        parts_.mailbox.PushAlways(event::SecretUnreadable{
            prepare->spec.key, prepare->spec.node,
            "secret " + name + " cannot be opened with " + parts_.secret_file + ": " +
                plain.error().message + "; put back the key file that goes with the store"});
        return;
      }
      value = std::move(*plain);
    }
  }
  parts_.sessions.Send(session, fence, std::move(message));
}

void Switchboard::CloseSession(SessionId session, const std::string& why) {
  spdlog::warn("session.closed session={} why={}", session.value, Quoted(why));
  parts_.sessions.Close(session, why);
}

void Switchboard::WantPlan(effect::PlanWanted wanted) { parts_.planner.Want(std::move(wanted)); }

void Switchboard::Diagnose(effect::DiagnosisWanted wanted) {
  for (auto& [name, value] : wanted.secrets) {
    // One that cannot be opened was given to no rank.
    value = Unseal(parts_.secret_key, value).value_or(std::string());
  }
  parts_.diagnosis.Want(std::move(wanted));
}

void Switchboard::ReadPlans(effect::ReadPlans wanted) {
  for (const effect::ReadPlans::Stored& stored : wanted.plans) {
    const auto plan = ReadStoredPlan(parts_.store, stored);
    if (!plan) {  // the job is shown without it: it may be running
      spdlog::error("plan.unreadable attempt={} why={}", ToString(stored.attempt),
                    Quoted(plan.error().message));
      continue;
    }
    AddPlan(wanted.view, stored.attempt.attempt, *plan);
  }
  parts_.requests.Complete(wanted.request, ReplyBody(std::move(wanted.view)));
}

}  // namespace launch::controller
