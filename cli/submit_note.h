// What submitting a job says on stderr.
#pragma once

#include <vector>

#include "cli/app.h"

namespace launch {

// Prints warnings and errors, and with -v notices too.
void NoteFindings(const App& app, std::vector<Finding> findings);

// Prints what was decided, when the job starts, and three commands for what comes next.
void NoteDecision(const App& app, Client& client, const SubmitAnswer& answer);

// Fills in the verdict of a job that failed and prints it in one line, with how to read all of it.
void NoteFailure(const App& app, Client& client, JobView& view);

// Reports that Submit was refused; if by findings, asks for them and prints their table or
// document.
Result<int> RefuseSubmit(const App& app, Client& client, const PlanCall& call, const Error& error);

}  // namespace launch
