// What submitting a job says on stderr.
#pragma once

#include <vector>

#include "cli/app.h"

namespace launch {

// Warnings and errors, with -v notices too.
void NoteFindings(const App& app, std::vector<Finding> findings);

// What was decided, when it starts, and the three next commands.
void NoteDecision(const App& app, Client& client, const SubmitAnswer& answer);

// Of a job that failed: its verdict, which it fills, in one line, and how to read all of it.
void NoteFailure(const App& app, Client& client, JobView& view);

// The refusal of Submit: by findings the table or document of them, which is sent for.
Result<int> RefuseSubmit(const App& app, Client& client, const PlanCall& call, const Error& error);

}  // namespace launch
