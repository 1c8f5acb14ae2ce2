// diagnose: the verdict on a log of a run that happened elsewhere; needs no cluster.
// why: the verdict on a job.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "cli/app.h"
#include "cli/bundle.h"
#include "cli/job_names.h"
#include "cli/job_verdict.h"
#include "cli/render_verdict.h"
#include "cli/unfailed_verdict.h"
#include "common/quoted.h"
#include "common/units.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

constexpr std::size_t kPiece = 1024 * 1024;

struct DiagnoseOptions {
  std::string log;
  std::optional<std::int64_t> exit_code;
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

// What was given, read once from its first byte to its last: a pipe has no second time.
struct Input {
  std::string path;
  std::unique_ptr<std::FILE, FileCloser> file;
  std::string head;  // its first bytes, by which an archive is known
};

Result<Input> OpenInput(const std::string& path) {
  Input input{.path = path, .file = nullptr, .head = std::string(512, '\0')};
  input.file.reset(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (input.file == nullptr)
    return Fail(ErrorCode::kNotFound, "cannot read the log `" + path + "`",
                ParseInt(path) ? "of a job: launch why " + path
                               : "give a readable file, or - for the standard input");
  if (struct stat there{};
      ::fstat(::fileno(input.file.get()), &there) == 0 && S_ISDIR(there.st_mode))
    return Fail(ErrorCode::kInvalidArgument, "`" + path + "` is a directory",
                "give one file: the log of the rank that failed first, or all of them: cat " +
                    ShellQuote(path) + "/*.log | launch diagnose -");
  input.head.resize(std::fread(input.head.data(), 1, input.head.size(), input.file.get()));
  return input;
}

Result<void> ReadRest(const Input& input,
                      const std::function<Result<void>(std::string_view)>& take) {
  std::string piece(kPiece, '\0');
  for (std::size_t got = 0;
       (got = std::fread(piece.data(), 1, piece.size(), input.file.get())) > 0;)
    LAUNCH_RETURN_IF_ERROR(take(std::string_view(piece).substr(0, got)));
  if (std::ferror(input.file.get()) != 0)
    return Fail(ErrorCode::kIo, "reading `" + input.path + "` failed before its end",
                "is its file system in trouble?");
  return {};
}

Result<LogEvidence> ScanLog(const Input& input, const CompiledSignatures& signatures) {
  LogScanner scanner(signatures);
  scanner.Feed(input.head);
  LAUNCH_RETURN_IF_ERROR(ReadRest(input, [&](std::string_view piece) -> Result<void> {
    scanner.Feed(piece);
    return {};
  }));
  return scanner.Finish();
}

// The archive that `launch bundle` made.
Result<TarEntries> ReadBundle(const Input& input) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::string bytes = input.head;
  LAUNCH_RETURN_IF_ERROR(ReadRest(input, [&](std::string_view piece) -> Result<void> {
    if (bytes.size() + piece.size() > kLargest)
      return Fail(ErrorCode::kInvalidArgument, "`" + input.path + "` is larger than any bundle");
    bytes.append(piece);
    return {};
  }));
  return ReadTar(bytes);
}

struct Compression {
  std::string_view magic;
  const char* name;
  const char* unpack;
};
constexpr Compression kCompressions[] = {{"\x1f\x8b", "gzip", "gunzip -c"},
                                         {"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
                                         {"\xfd\x37zXZ", "xz", "xz -dc"},
                                         {"BZh9", "bzip2", "bzip2 -dc"}};

void Print(const App& app, const Verdict& verdict) {
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(VerdictJson(verdict));
  } else if (app.WantsName()) {
    app.Out(verdict.label + "\n");
  } else {
    app.Out(VerdictText(verdict));
  }
}

Result<int> RunDiagnose(const App& app, const DiagnoseOptions& options) {
  NodeEvidence node;
  node.exit_code = options.exit_code;
  if (node.exit_code < 0) {  // torchrun and Python's subprocess write a signal so
    node.signal = static_cast<int>(-*options.exit_code);
    node.exit_code.reset();
  }
  if (!options.signal.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(node.signal, ParseSignal(options.signal));
  }
  const CompiledSignatures signatures;
  LAUNCH_ASSIGN_OR_RETURN(const Input input, OpenInput(options.log));
  for (const Compression& kind : kCompressions) {
    if (input.head.starts_with(kind.magic))
      return Fail(ErrorCode::kInvalidArgument, "`" + input.path + "` is compressed by " + kind.name,
                  std::string(kind.unpack) + " FILE | launch diagnose -");
  }
  if (LooksLikeTar(input.head)) {
    LAUNCH_ASSIGN_OR_RETURN(const TarEntries bundle, ReadBundle(input));
    LAUNCH_ASSIGN_OR_RETURN(const Verdict verdict, VerdictOfBundle(bundle, signatures));
    Print(app, verdict);
    return 0;
  }
  LAUNCH_ASSIGN_OR_RETURN(const LogEvidence log, ScanLog(input, signatures));
  Print(app, Judge(log, node, signatures));
  return 0;
}

struct WhyOptions {
  std::string job;
  std::optional<std::uint32_t> attempt;
};

Result<int> RunWhy(const App& app, const WhyOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const JobId id, JobNamed(client, options.job));
  LAUNCH_ASSIGN_OR_RETURN(const JobView job, client.Job(id));
  std::optional<Attempt> attempt;
  if (options.attempt) attempt = Attempt{*options.attempt};
  if (auto good = VerdictOfUnfailed(job); good && !attempt) {
    const bool text = !app.WantsJson() && !app.WantsYaml() && !app.WantsName();
    if (text) app.Out(good->says + "\n");
    if (text && good->verdict.label == "none") return 0;
    if (text && IsTerminal(job.state)) good->verdict.action = "continue";
    Print(app, good->verdict);
    return 0;
  }
  LAUNCH_ASSIGN_OR_RETURN(const Verdict verdict, VerdictOfJob(client, job, attempt));
  Print(app, verdict);
  return 0;
}

}  // namespace

void AddDiagnoseVerbs(CLI::App& parser, App& app) {
  auto options = std::make_shared<DiagnoseOptions>();
  CLI::App* diagnose =
      parser.add_subcommand("diagnose", "Name the cause of a failed run from its log");
  diagnose
      ->add_option("file,--log", options->log,
                   "Log file or bundle; - reads a log from standard input")
      ->required();
  auto* code =
      diagnose
          ->add_option(
              "--exit-code", options->exit_code,
              "Exit code of the run as the shell or launcher reported it; -9 means signal 9")
          ->check(CLI::Range(-64, 255));
  diagnose->add_option("--signal", options->signal, "Signal that ended the run: 9 or KILL")
      ->excludes(code);
  auto why_options = std::make_shared<WhyOptions>();
  CLI::App* why = parser.add_subcommand("why", "Show why a job failed: cause, evidence, remedy");
  why->add_option("job", why_options->job, "Job id")->required();
  why->add_option("--attempt", why_options->attempt,
                  "Attempt to explain (default: the latest that failed)");
  why->callback(
      [&app, why_options] { app.run = [&app, why_options] { return RunWhy(app, *why_options); }; });
  diagnose->callback(
      [&app, options] { app.run = [&app, options] { return RunDiagnose(app, *options); }; });
}

}  // namespace launch
