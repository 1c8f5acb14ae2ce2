// What is said of a text that bash runs as it is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "planner/line/shell_text.h"

namespace launch {

// `| tee`, `|| true`, `&`: the exit code of the text is not the training's. `where`: what the text
// is, for people.
std::vector<Finding> HiddenStatus(const ShellScript& script, const std::string& where = "run");

// The launcher that the text starts a second time while it still runs; empty: none.
// `scripts`: those at hand that call one, as the text names them.
std::string LaunchersAtOnce(const ShellScript& script,
                            const std::set<std::string, std::less<>>& scripts = {});

// The command of a script file that goes on in the background when the script ends; empty: none,
// or the script stays for it.
std::string LeftInBackground(const ShellScript& script);

// What makes a text last as long as the last command that it leaves in the background, and end as
// that one does; empty for a text that waits itself.
std::string WaitBehind(const ShellScript& script);

// `module load` and `conda activate` are functions of login shells, which the text does not have.
std::vector<Finding> LoginShellNotes(const ShellScript& script);

}  // namespace launch
