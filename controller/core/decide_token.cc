// Join tokens: known by the serial of their certificate; used up by a commit before anything is
// signed.
#include <fmt/format.h>

#include "controller/core/draft.h"

namespace launch::controller {
namespace {

bool IsRole(const std::string& role) {
  return role == "node" || role == "user" || role == "operator";
}

std::string Sentence(const JoinRecord& token, WallTime wall) {
  const char* state = token.revoked          ? "revoked"
                      : token.used           ? "used"
                      : token.expires < wall ? "expired"
                                             : "unused";
  return fmt::format("{} {}: {}, created by {}", token.role, token.name, state,
                     token.created_by.value);
}

Unexpected Denied(std::string message) {
  return Fail(ErrorCode::kPermissionDenied, std::move(message),
              "create a new one with `launch token create`");
}

// Why a token does not open the door, or nothing.
std::optional<Error> Refusal(const State& state, const event::UseToken& event, WallTime wall) {
  const auto found = state.joins.find(event.serial);
  if (found == state.joins.end()) return Denied("this join token is not known here").value();
  const JoinRecord& token = found->second;
  if (token.revoked) return Denied("this join token was revoked").value();
  if (token.used) return Denied("this join token was used before").value();
  if (token.expires < wall) return Denied("this join token has expired").value();
  const bool role_fits =
      token.role == event.role || (token.role == "operator" && event.role == "user");
  if (!role_fits || token.name != event.name) {
    return Denied(fmt::format("this join token is for {} {}, not for {} {}", token.role, token.name,
                              event.role, event.name))
        .value();
  }
  if (event.role == "node") {
    const auto node = state.nodes.find(NodeId{event.name});
    if (node != state.nodes.end() && !node->second.certificate_serial.empty() && !event.rejoin) {
      return Error{
          ErrorCode::kAlreadyExists, fmt::format("a node named {} has joined before", event.name),
          "join with --rejoin to replace its certificate, or choose another name", std::nullopt};
    }
  }
  return std::nullopt;
}

void Deny(Draft& draft, const std::string& serial, const std::string& why) {
  if (!serial.empty()) draft.Put(DenyRecord{serial, why});
}

// Who comes back needs a token that was made after that.
void CloseOpenTokens(Draft& draft, const event::RevokeMember& event) {
  std::vector<JoinRecord> open;
  for (const auto& [serial, token] : draft.state().joins) {
    const bool is_of_node = token.role == "node";
    const bool theirs = token.name == event.name && is_of_node == (event.role == "node");
    if (theirs && !token.used && !token.revoked) open.push_back(token);
  }
  for (JoinRecord& token : open) {
    token.revoked = true;
    draft.Put(token);
  }
}

}  // namespace

void OnUser(Draft& draft, const event::CreateToken& event) {
  if (!event.caller.is_operator) {
    draft.Reply(event.request,
                Fail(ErrorCode::kPermissionDenied,
                     fmt::format("user {} is not an operator", event.caller.user.value),
                     "ask an operator of this cluster for a token"));
    return;
  }
  if (event.revoke) {
    const auto found = draft.state().joins.find(event.serial);
    if (found == draft.state().joins.end()) {
      draft.Reply(event.request,
                  Fail(ErrorCode::kNotFound, "there is no such token", "`launch token list`"));
      return;
    }
    JoinRecord token = found->second;
    if (token.used) {
      draft.Reply(event.request,
                  Fail(ErrorCode::kFailedPrecondition,
                       fmt::format("this token was used by {} {}", token.role, token.name),
                       fmt::format("shut out whom it let in: launch token revoke --{} {}",
                                   token.role == "node" ? "node" : "user", token.name)));
      return;
    }
    token.revoked = true;
    draft.Put(token);
    draft.Event("token.revoked", "token/" + token.serial, token.role + " " + token.name);
    draft.Reply(event.request, ReplyBody(reply::Token{event.serial}));
    return;
  }
  if (!IsRole(event.role) || !IsValidName(event.name) || event.serial.empty() ||
      draft.state().joins.contains(event.serial)) {
    draft.Reply(event.request,
                Fail(ErrorCode::kInvalidArgument,
                     fmt::format("cannot make a token for {} '{}'", event.role, event.name),
                     "roles are node, user and operator; names have 1-63 characters of "
                     "[a-zA-Z0-9._-]"));
    return;
  }
  draft.Put(JoinRecord{event.serial, event.role, event.name, event.expires, false, false,
                       event.caller.user});
  draft.Event("token.created", "token/" + event.serial, event.role + " " + event.name);
  draft.Reply(event.request, ReplyBody(reply::Token{event.serial}));
}

void OnUser(Draft& draft, const event::RevokeMember& event) {
  const auto refuse = [&](ErrorCode code, std::string why, std::string hint) {
    draft.Reply(event.request, Fail(code, std::move(why), std::move(hint)));
  };
  if (!event.caller.is_operator) {
    return refuse(ErrorCode::kPermissionDenied,
                  fmt::format("user {} is not an operator", event.caller.user.value),
                  "ask an operator of this cluster");
  }
  if (event.role == "node") {
    const auto node = draft.state().nodes.find(NodeId{event.name});
    if (node == draft.state().nodes.end()) {
      return refuse(ErrorCode::kNotFound, "no node is called " + event.name, "`launch nodes`");
    }
    Deny(draft, node->second.certificate_serial, "by " + event.caller.user.value);
    Deny(draft, node->second.earlier_serial, "by " + event.caller.user.value);
    CloseOpenTokens(draft, event);
    draft.Event("node.revoked", Subject(node->first), "by " + event.caller.user.value);
    draft.Reply(event.request, ReplyBody(reply::Done{}));
    return;
  }
  if (event.name == event.caller.user.value) {
    return refuse(ErrorCode::kFailedPrecondition, "you are " + event.name + " yourself",
                  "have another operator do it");
  }
  const auto known = draft.state().users.find(UserName{event.name});
  if (known == draft.state().users.end()) {
    return refuse(ErrorCode::kNotFound, "no user is called " + event.name, "`launch token list`");
  }
  // By time, not by serial: a user may have logged in on several machines, and renewed there.
  UserRecord user = known->second;
  user.revoked = draft.wall();
  user.is_operator = false;
  user.certificate_serial.clear();
  draft.Put(user);
  CloseOpenTokens(draft, event);
  draft.Event("user.revoked", "user/" + event.name, "by " + event.caller.user.value);
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

void OnUser(Draft& draft, const event::ListTokens& event) {
  reply::Tokens answer;
  for (const auto& [serial, token] : draft.state().joins) {
    answer.rows.emplace_back(serial, Sentence(token, draft.wall()));
  }
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

void OnUser(Draft& draft, const event::UseToken& event) {
  if (std::optional<Error> refusal = Refusal(draft.state(), event, draft.wall())) {
    draft.Event("token.refused", "token/" + event.serial, refusal->message);
    draft.Reply(event.request, Unexpected(std::move(*refusal)));
    return;
  }
  JoinRecord token = draft.state().joins.at(event.serial);
  token.used = true;
  draft.Put(token);
  if (event.role == "node") {
    const NodeId id{event.name};
    const auto known = draft.state().nodes.find(id);
    NodeRecord node = known == draft.state().nodes.end() ? NodeRecord{} : known->second;
    if (event.rejoin) {
      Deny(draft, node.certificate_serial, "replaced by a rejoin");
      Deny(draft, node.earlier_serial, "replaced by a rejoin");
      if (const auto live = draft.live().nodes.find(id);
          live != draft.live().nodes.end() && live->second.session) {
        draft.Close(*live->second.session, "the node joined again");
      }
    }
    node.id = id;
    node.machine = MachineIdentity{};  // whoever attaches first with the new certificate
    node.certificate_serial = event.new_serial;
    node.earlier_serial.clear();
    if (node.first_seen == WallTime{}) node.first_seen = draft.wall();
    draft.Put(node);
    draft.Event("node.joined", Subject(id), event.rejoin ? "again" : "");
  } else {
    const UserName name{event.name};
    const auto known = draft.state().users.find(name);
    UserRecord user = known == draft.state().users.end() ? UserRecord{} : known->second;
    user.name = name;
    user.is_operator = user.is_operator || token.role == "operator";
    user.certificate_serial = event.new_serial;
    draft.Put(user);
    draft.Event("user.joined", "user/" + event.name, user.is_operator ? "as operator" : "");
  }
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

void OnUser(Draft& draft, const event::Renew& event) {
  const auto no = [&](const std::string& why) {
    draft.Reply(event.request, Fail(ErrorCode::kPermissionDenied, why,
                                    "join again with a new token: `launch token create`"));
  };
  if (event.role == "node") {
    const auto known = draft.state().nodes.find(NodeId{event.name});
    if (known == draft.state().nodes.end()) return no("no node is called " + event.name);
    if (draft.state().denied.contains(event.serial)) return no("the certificate was revoked");
    NodeRecord node = known->second;
    if (event.serial != node.certificate_serial && event.serial != node.earlier_serial)
      return no("the certificate of node " + event.name + " was replaced by a newer one");
    // An answer may get lost: what asks stays good, and of the other two only the new one.
    const std::string& other =
        event.serial == node.certificate_serial ? node.earlier_serial : node.certificate_serial;
    Deny(draft, other, "replaced by a renewed one");
    node.earlier_serial = event.serial;
    node.certificate_serial = event.new_serial;
    draft.Put(node);
    draft.Event("node.renewed", Subject(node.id), "its certificate, before the end of the last");
  } else {
    const auto known = draft.state().users.find(UserName{event.name});
    if (known == draft.state().users.end()) return no("no user is called " + event.name);
    UserRecord user = known->second;
    // Since it asked; and nobody of this name has joined again.
    if (user.revoked != WallTime{} && user.certificate_serial.empty()) {
      return no("user " + event.name + " was shut out");
    }
    user.certificate_serial = event.new_serial;
    draft.Put(user);
    draft.Event("user.renewed", "user/" + event.name, "a certificate, before the end of the last");
  }
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

}  // namespace launch::controller
