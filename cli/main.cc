// launch: the command line.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "cli/app.h"
#include "cli/log_printer.h"
#include "cli/misuse.h"
#include "cli/output_form.h"
#include "cli/render_json.h"
#include "cli/top_help.h"
#include "cli/verb_output.h"
#include "common/version.h"
#include "proto/protobuf_log.h"

namespace {

constexpr int kBadUsage = 2;

void AddGlobalFlags(CLI::App& parser, launch::App& app) {
  parser
      .add_option_function<std::string>(
          "-o,--output",
          [&app](const std::string& text) {
            launch::Result<launch::OutputForm> form = launch::ParseOutputForm(text);
            if (!form) throw CLI::ValidationError("-o", launch::FormatError(form.error()));
            app.output = std::move(form->name);
            app.columns = std::move(form->columns);
          },
          "table, wide, json, yaml, name, csv, custom=ID,NAME,ST")
      ->type_name("FORM");
  parser.add_flag("--json", app.json, "The same as -o json");
  parser.add_flag("--expand", app.expand, "Print gpu01,gpu02 instead of gpu[01-02]");
  parser.add_flag("--no-color", app.no_color, "Print without colours; also the variable NO_COLOR");
  parser.add_flag("-q,--quiet", app.quiet, "Print results only, no advice");
  parser.add_flag("-v,--verbose", app.verbose, "Print every step");
  CLI::Option* controller = parser
                                .add_option("--controller", app.controller,
                                            "Address of the controller; also LAUNCH_CONTROLLER")
                                ->type_name("HOST:PORT");
  CLI::Option* credentials = parser
                                 .add_option("--credentials", app.credentials,
                                             "Your certificate and key; also LAUNCH_CREDENTIALS")
                                 ->type_name("DIR");
  parser
      .add_option("--context", app.context, "A cluster in `launch context`; default: current one")
      ->type_name("NAME")
      ->excludes(controller)
      ->excludes(credentials);
  parser.set_version_flag("--version", "launch " + std::string(launch::Version()),
                          "The same as `launch version`");
}

int Report(const launch::App& app, const launch::Error& error) {
  const std::string text = launch::CleanText(launch::FormatError(error), false);
  std::fprintf(stderr, "launch: %s\n", text.c_str());
  if (app.WantsJson()) app.OutDocument(launch::ErrorJson(error));
  return launch::ExitCodeOf(error.code);
}

// A file that is opened later must not take the number of a stream that the caller closed, or what
// is printed would go there. Reading and writing them fails as it does with a closed one.
void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// `launch help submit` as `launch submit --help`.
launch::Words OwnWords(char** begin, char** end) {
  launch::Words words(begin, end);
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  // gRPC prints handshakes that fail; our own error says what they mean.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  launch::SetProtobufLog(nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  HoldStandardStreams();

  launch::App app;
  CLI::App parser{"launch: plan, run and watch training jobs on the GPUs of many machines",
                  "launch"};
  parser.require_subcommand(1);
  parser.fallthrough();  // global flags also stand behind the verb
  AddGlobalFlags(parser, app);
  launch::AddSubmitVerbs(parser, app);
  launch::AddChangeVerbs(parser, app);
  launch::AddRunVerbs(parser, app);
  launch::AddCheckVerb(parser, app);
  launch::AddJobVerbs(parser, app);
  launch::AddLogVerbs(parser, app);
  launch::AddExecVerbs(parser, app);
  launch::AddCopyVerb(parser, app);
  launch::AddDiagnoseVerbs(parser, app);
  launch::AddBundleVerb(parser, app);
  launch::AddClusterVerbs(parser, app);
  launch::AddTopVerb(parser, app);
  launch::AddServerVerbs(parser, app);
  launch::AddRepairVerbs(parser, app);
  launch::AddDevVerbs(parser, app);
  launch::AddUpVerbs(parser, app);
  launch::AddDownVerbs(parser, app);
  launch::AddContextVerbs(parser, app);
  // After the verbs, which would inherit it.
  parser.formatter_fn([](const CLI::App* top, const std::string&, CLI::AppFormatMode) {
    return launch::TopHelp(*top);
  });

  // Behind the first `--` stands somebody else's command line, or overrides: not ours to parse.
  int own = argc;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    own = i;
    app.rest.emplace(argv + i + 1, argv + argc);
    break;
  }
  const launch::Words words = OwnWords(argv + 1, argv + own);
  try {
    parser.parse(launch::Words(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {  // help and version
    std::ostringstream text;
    parser.exit(asked, text);
    app.OutBytes(text.str());
    return app.CodeAfterOutput(0);
  } catch (const CLI::ParseError& error) {
    if (launch::AsksForJson(words)) app.output = "json";
    const auto* missing = dynamic_cast<const CLI::RequiredError*>(&error);
    if (missing != nullptr && words.empty()) {
      std::fputs(parser.help().c_str(), stderr);
      return kBadUsage;
    }
    return Report(app, missing != nullptr
                           ? launch::MissingWord(*missing, parser)
                           : launch::WrongWord(error, parser, words, app.rest.has_value()));
  }
  if (app.json) app.output = "json";
  try {
    if (auto fine = launch::MustPrint(parser, app); !fine) return Report(app, fine.error());
    const launch::Result<int> code = app.run();
    if (!code) return Report(app, code.error());
    return app.CodeAfterOutput(*code);
  } catch (const std::filesystem::filesystem_error& error) {  // as in a directory that was removed
    return Report(app, launch::Error{launch::ErrorCode::kIo, error.what(), {}, {}});
  }
}
