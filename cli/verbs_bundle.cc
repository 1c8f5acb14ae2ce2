// bundle: one archive for a bug report.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "cli/app.h"
#include "cli/bundle.h"
#include "cli/environment_variable.h"
#include "cli/job_names.h"
#include "common/pki.h"
#include "common/text.h"
#include "common/unique_fd.h"
#include "common/units.h"

namespace launch {
namespace {

struct BundleOptions {
  std::string job;
  std::string file;
  bool unredacted_logs = false;
};

// Never over another file: a bundle is sent to others.
Result<void> WriteNew(const std::string& path, std::string_view bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return Fail(errno == EEXIST ? ErrorCode::kAlreadyExists : ErrorCode::kIo,
                "cannot write `" + path + "`: " + std::strerror(errno),
                "name another file: launch bundle JOB --file FILE.tar");
  }
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      return Fail(ErrorCode::kIo, "writing `" + path + "`: " + std::strerror(errno),
                  "is the disk full?");
    }
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

// Secrets came from the environment of the caller, where they often still are.
Redaction::Variables SecretsHere(const JobView& job) {
  Redaction::Variables here;
  if (!job.spec) return here;
  for (const std::string& name : job.spec->secrets) here[name] = EnvironmentVariable(name.c_str());
  return here;
}

Result<int> RunBundle(const App& app, const BundleOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const JobId id, JobNamed(client, options.job));
  LAUNCH_ASSIGN_OR_RETURN(const JobView job, client.Job(id));
  Redaction redaction(job, SecretsHere(job));
  redaction.MarkWith(RandomHex(32));
  // The controller has deleted them with the job's end, so nobody can take them out.
  const std::string unknown = Joined(redaction.unknown(), ", ");
  const bool with_logs = unknown.empty() || options.unredacted_logs;
  LAUNCH_ASSIGN_OR_RETURN(
      const TarEntries bundle,
      MakeBundle(client, job, redaction, with_logs ? BundleLogs::kWith : BundleLogs::kWithout));
  const std::string archive = MakeTar(bundle);
  const std::string path =
      options.file.empty() ? "launch-job-" + std::to_string(id.value) + ".tar" : options.file;
  LAUNCH_RETURN_IF_ERROR(WriteNew(path, archive));
  app.Out(path + "\n");
  app.Note(std::to_string(bundle.size()) + " files, " + FormatBytes(archive.size()) +
           ", secrets removed; look through it before you send it: tar tvf " + path);
  if (!with_logs) {
    app.Note("without the logs: the values of " + unknown +
             " are not known here, and a rank may have printed them. Set them in your environment "
             "and run this again, or add --unredacted-logs");
  } else if (!unknown.empty()) {
    app.Note("with the logs as they are: if a rank printed " + unknown + ", it is in the archive");
  }
  return 0;
}

}  // namespace

void AddBundleVerb(CLI::App& parser, App& app) {
  auto options = std::make_shared<BundleOptions>();
  CLI::App* bundle = parser.add_subcommand(
      "bundle", "Pack a job into an archive for a bug report, without secrets");
  bundle->add_option("job", options->job, "Job id")->required();
  bundle->add_option("--file", options->file, "File to write; default: launch-job-JOB.tar");
  bundle->add_flag("--unredacted-logs", options->unredacted_logs,
                   "Include logs even when the job's secrets are not known here to redact them");
  bundle->callback(
      [&app, options] { app.run = [&app, options] { return RunBundle(app, *options); }; });
}

}  // namespace launch
