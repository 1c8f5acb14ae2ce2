#include "controller/switchboard.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/pki.h"
#include "common/quoted.h"
#include "controller/core/views.h"
#include "controller/plan_codec.h"
#include "proto/convert_error.h"

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

// A certificate is looked at when a call begins; what a user opened before has to be ended. Once
// more a little later: a call that was let in just before may have opened its stream just after.
void Switchboard::EndStreamsOf(const UserName& user) {
  for (const Millis delay : {Millis{0}, Millis{1000}}) {
    parts_.executor.After(delay, [this, user] {
      const Error why = ShutOut(user);
      parts_.execs.CloseUser(user, ToStatus(why));
      parts_.relay.CloseUser(user, why);
      parts_.watchers.CloseUser(user);
    });
  }
}

void Switchboard::Committed(const Change& change) {
  std::vector<UserName> shut_out;
  for (const Record& record : change.records) {
    const auto* put = std::get_if<Put>(&record);
    const auto* user = put == nullptr ? nullptr : std::get_if<UserRecord>(&put->entity);
    if (user != nullptr && parts_.directory.ShutsOut(*user)) shut_out.push_back(user->name);
    parts_.directory.Note(record);
  }
  for (const UserName& user : shut_out) EndStreamsOf(user);
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
  const bool large = reply.body && (std::holds_alternative<reply::Jobs>(*reply.body) ||
                                    std::holds_alternative<reply::Nodes>(*reply.body) ||
                                    std::holds_alternative<JobView>(*reply.body));
  if (!large) {
    parts_.requests.Complete(reply.request, std::move(reply.body));
    return;
  }
  // Ten thousand jobs or ranks are put into a message elsewhere: the loop has better things to do.
  parts_.executor.Post([this, id = reply.request,
                        body = std::make_shared<Result<ReplyBody>>(std::move(reply.body))] {
    parts_.requests.Complete(id, std::move(*body));
  });
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
  parts_.executor.Post([this, wanted = std::move(wanted)]() mutable {
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
  });
}

}  // namespace launch::controller
