// diagnose: the verdict on a log of a run that happened elsewhere; needs no cluster.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/app.h"
#include "cli/render_verdict.h"
#include "common/units.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

constexpr std::size_t kPiece = 1024 * 1024;

struct DiagnoseOptions {
  std::string log;
  std::optional<int> exit_code;
  std::string signal;
};

struct FileCloser {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

// "9", "KILL" and "SIGKILL".
Result<int> ParseSignal(std::string name) {
  if (const auto number = ParseInt(name); number && *number > 0 && *number < 65)
    return static_cast<int>(*number);
  if (name.rfind("SIG", 0) == 0) name.erase(0, 3);
  const std::pair<const char*, int> known[] = {
      {"HUP", 1},  {"INT", 2},   {"ILL", 4},   {"ABRT", 6},  {"BUS", 7},   {"FPE", 8},
      {"KILL", 9}, {"USR1", 10}, {"SEGV", 11}, {"USR2", 12}, {"TERM", 15}, {"XCPU", 24}};
  for (const auto& [text, number] : known)
    if (name == text) return number;
  return Fail(ErrorCode::kInvalidArgument, "`" + name + "` is not a signal", "--signal 9 or KILL");
}

Result<LogEvidence> ScanFile(const std::string& path, const CompiledSignatures& signatures) {
  const std::unique_ptr<std::FILE, FileCloser> file(path == "-" ? stdin
                                                                : std::fopen(path.c_str(), "rb"));
  if (file == nullptr)
    return Fail(ErrorCode::kNotFound, "cannot read the log `" + path + "`",
                "give a readable file, or - for the standard input");
  LogScanner scanner(signatures);
  std::string piece(kPiece, '\0');
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), file.get())) > 0;)
    scanner.Feed(std::string_view(piece).substr(0, got));
  if (std::ferror(file.get()) != 0)
    return Fail(ErrorCode::kIo, "reading `" + path + "` failed before its end",
                "is it a directory, or on a file system with trouble?");
  return scanner.Finish();
}

Result<int> RunDiagnose(const App& app, const DiagnoseOptions& options) {
  NodeEvidence node;
  node.exit_code = options.exit_code;
  if (!options.signal.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(node.signal, ParseSignal(options.signal));
  }
  const CompiledSignatures signatures;
  LAUNCH_ASSIGN_OR_RETURN(const LogEvidence log, ScanFile(options.log, signatures));
  const Verdict verdict = Judge(log, node, signatures);
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(VerdictJson(verdict));
  } else if (app.WantsName()) {
    app.Out(verdict.label + "\n");
  } else {
    app.Out(VerdictText(verdict));
  }
  return 0;
}

}  // namespace

void AddDiagnoseVerbs(CLI::App& parser, App& app) {
  auto options = std::make_shared<DiagnoseOptions>();
  CLI::App* diagnose =
      parser.add_subcommand("diagnose", "Name the cause of a failed run from its log");
  diagnose->add_option("--log", options->log, "The log; - is the standard input")->required();
  auto* code = diagnose->add_option("--exit-code", options->exit_code,
                                    "Exit code of the run, as the shell or the launcher said");
  diagnose->add_option("--signal", options->signal, "Signal that ended it: 9 or KILL")
      ->excludes(code);
  diagnose->callback(
      [&app, options] { app.run = [&app, options] { return RunDiagnose(app, *options); }; });
}

}  // namespace launch
