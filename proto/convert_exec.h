// Messages of a command beside a rank as values: docs/wire.md.
#pragma once

#include "common/error.h"
#include "common/exec.h"
#include "common/ids.h"
#include "proto/exec.pb.h"
#include "proto/launch.pb.h"

namespace launch {

namespace pb = ::launch::v1;

// What a user asks for: the first message of Launch.Exec.
struct ExecCall {
  JobId job;
  Rank rank = 0;
  ExecCommand command;
  friend bool operator==(const ExecCall&, const ExecCall&) = default;
};

pb::TerminalSize ToProto(const TerminalSize& v);
pb::ExecCommand ToProto(const ExecCommand& v);
pb::ExecEnd ToProto(const ExecEnd& v);
pb::ExecRequest_Open ToProto(const ExecCall& v);

// Errors as in convert_value.h.
Result<TerminalSize> FromProto(const pb::TerminalSize& m);
Result<ExecCommand> FromProto(const pb::ExecCommand& m);
Result<ExecEnd> FromProto(const pb::ExecEnd& m);
Result<ExecCall> FromProto(const pb::ExecRequest_Open& m);

// What the controller lets pass between the two ends: a body that belongs there, of bounded size.
// Only what comes from the user's side may be told to a node.
Result<void> CheckPassedOn(const pb::ExecInput& m);
Result<void> CheckPassedOn(const pb::ExecOutput& m);

}  // namespace launch
