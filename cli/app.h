// What every verb shares: the global flags, where output goes, which cluster is meant.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"
#include "cli/render_text.h"
#include "cli/table.h"
#include "common/error.h"

namespace CLI {
class App;
}

namespace launch {

class PassingCluster;

struct App {
  // Global flags.
  std::string output = "table";      // as OutputForm::name
  std::vector<std::string> columns;  // of -o csv= and custom=; empty: all
  bool json = false;                 // --json, the same as -o json
  bool expand = false;               // lists of hosts are not folded
  bool no_color = false;
  bool quiet = false;
  bool verbose = false;
  std::string controller;
  std::string credentials;
  std::string context;  // name of `launch context`; goes before the current one and the variables

  // The words after the first `--`; absent where there is none.
  std::optional<std::vector<std::string>> rest;
  // Set by the verb that was given; returns the exit code.
  std::function<Result<int>()> run;
  // Verbs whose answer is one table; the others refuse -o csv and custom=.
  std::set<const CLI::App*> listing;

  bool WantsJson() const { return output == "json"; }
  bool WantsYaml() const { return output == "yaml"; }
  bool WantsName() const { return output == "name"; }
  bool WantsCells() const { return output == "csv" || output == "custom"; }
  Screen ScreenNow() const;
  bool StdoutIsTerminal() const;

  // Prints text for people on stdout; of control sequences only colours reach the terminal.
  void Out(const std::string& text) const;
  void OutBytes(std::string_view bytes) const;  // as they are, for programs
  void Note(const std::string& text) const;     // stderr, not with -q; adds the newline
  // Prints a JSON document as JSON or YAML, by the flags.
  void OutDocument(const std::string& json_text) const;
  // Prints a table, or CSV, by the flags. kInvalidArgument: it has no such column.
  Result<void> OutTable(const Table& table) const;

  // What to do about the embedded cluster where none runs: start it, refuse, or (kPassing) make one
  // that lives for this command, for verbs that only ask.
  enum class Embedded { kMayStart, kMustRun, kPassing };
  // --context, else --controller and --credentials, else the variables, else the current context,
  // else the embedded cluster, which is started when `embedded` allows it. LAUNCH_STATE_DIR means
  // the embedded one.
  Result<Client> Connect(Embedded embedded) const;

  // What `code` becomes where the output did not reach stdout: 1, unless the verb failed by itself.
  // Who reads no further (`| head -1`) has what was wanted.
  int CodeAfterOutput(int code) const;
  bool OutputFailed() const;

  mutable std::shared_ptr<PassingCluster> passing;  // of Connect; ends with the program
  mutable int output_error = 0;                     // errno of the first failed write to stdout
};

// One function per family; each adds its verbs to the parser and keeps its options alive with it.
void AddSubmitVerbs(CLI::App& parser, App& app);    // submit, plan
void AddChangeVerbs(CLI::App& parser, App& app);    // hold, release, requeue, update
void AddRunVerbs(CLI::App& parser, App& app);       // run, env, history, init, completion
void AddCheckVerb(CLI::App& parser, App& app);      // check
void AddJobVerbs(CLI::App& parser, App& app);       // queue, status, explain, cancel, wait, events
void AddLogVerbs(CLI::App& parser, App& app);       // logs
void AddExecVerbs(CLI::App& parser, App& app);      // exec, shell
void AddCopyVerb(CLI::App& parser, App& app);       // cp
void AddBundleVerb(CLI::App& parser, App& app);     // bundle
void AddDiagnoseVerbs(CLI::App& parser, App& app);  // diagnose, why
void AddServerVerbs(CLI::App& parser, App& app);    // server
void AddClusterVerbs(CLI::App& parser, App& app);   // nodes, drain, token, login, version
void AddRepairVerbs(CLI::App& parser, App& app);    // node fence, quarantine; after the cluster's
void AddTopVerb(CLI::App& parser, App& app);        // top
void AddDevVerbs(CLI::App& parser, App& app);       // dev up, status, down
void AddUpVerbs(CLI::App& parser, App& app);        // up, upgrade
void AddDownVerbs(CLI::App& parser, App& app);      // down, nodes remove
void AddContextVerbs(CLI::App& parser, App& app);   // context

Result<JobId> ParseJobId(const std::string& text);

// Waits until the job is done; reports each change of state. kDeadlineExceeded after `at_most`.
// Survives a restart of the controller.
Result<JobView> AwaitJob(Client& client, JobId job, std::optional<Millis> at_most,
                         const std::function<void(const JobView&)>& changed);
// Exit code of `submit --wait` and `wait`: the job's first failing code.
int ExitCodeOfJob(const JobView& job);

}  // namespace launch
