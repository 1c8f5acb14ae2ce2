#include "cli/up/install.h"

#include <algorithm>

#include "cli/up/embedded_texts.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr Millis kCommand(30'000);
constexpr Millis kHash(120'000);  // of a few programs, on a slow file system
constexpr Millis kUpload(600'000);

std::string ScriptOf(const std::string& arguments) {
  return "sh -c " + ShellQuote(kReleasesScript) + " sh " + arguments;
}

// Root's programs may be seen by all.
Result<void> MakeDirectories(Remote& remote, const HostFacts& facts) {
  if (facts.made) return {};
  const std::string programs = ShellQuote(facts.programs);
  std::string command = "umask 077; mkdir -p " + programs + " " + ShellQuote(facts.state);
  if (facts.uid == 0) command += " && chmod 755 " + programs;
  LAUNCH_RETURN_IF_ERROR(Must(remote, command, "", kCommand, "mkdir"));
  return {};
}

// The programs that are not there, or cannot be those of the release. What is there was compared
// with its digest when it came; a file of another length was damaged since.
Result<std::string> MissingPrograms(Remote& remote, const Release& release,
                                    const std::string& dir) {
  std::string command;
  for (const Program& program : release.programs) {
    const std::string path = ShellQuote(dir + "/" + program.name);
    const std::string bytes = std::to_string(program.bytes);
    command.append("[ -x ").append(path).append(" ] && [ \"$(wc -c < ").append(path);
    command.append(")\" -eq ")
        .append(bytes)
        .append(" ] || echo ")
        .append(program.name)
        .append("; ");
  }
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Must(remote, command, "", kCommand, "looking at the programs"));
  std::string missing(Trim(answer.output));
  std::replace(missing.begin(), missing.end(), '\n', ' ');
  return missing;
}

// Where programs of ours may lie: the releases of this host, and of the others that share its
// home. The newest first: most of what a release has was in the one before.
std::string Places(const HostFacts& facts) {
  std::string own = ShellQuote(facts.programs) + "/releases/*";
  if (facts.home.empty()) return own;
  return own + " " + ShellQuote(facts.programs.substr(0, facts.programs.rfind('/'))) +
         "/*/releases/*";
}

// What it had to send.
Result<std::uint64_t> Bring(Remote& remote, const HostFacts& facts, const Program& program,
                            const std::string& dir, const SentBytes& sent) {
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer there,
      Must(remote,
           ScriptOf("take " + program.name + " " + std::to_string(program.bytes) + " " +
                    program.digest + " " + ShellQuote(dir) + " " + Places(facts)),
           "", kHash, "looking for " + program.name));
  const std::string_view said = Trim(there.output);
  if (said == "same" || said == "taken") return std::uint64_t{0};
  if (said != "missing")
    return Fail(ErrorCode::kFailedPrecondition,
                "looking for " + program.name + ": its shell answers " + Quoted(LastWords(said)),
                "look at what `ssh HOST true` prints: it should be nothing");
  LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, ReadProgram(program));
  const std::string path = ShellQuote(dir + "/" + program.name);
  const std::string part = ShellQuote(dir + "/." + program.name + ".part") + ".$$";
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer answer,
      remote.Send("umask 022; cat > " + part + " && [ \"$(sha256sum < " + part +
                      " | cut -c1-64)\" = " + program.digest + " ] && chmod 755 " + part +
                      " && mv -f " + part + " " + path,
                  bytes, kUpload, sent));
  LAUNCH_RETURN_IF_ERROR(MustBeDone(answer, "uploading " + program.name));
  return program.bytes;
}

}  // namespace

SharedHomes::Turn SharedHomes::Await(const HostFacts& facts, const Program& program) {
  Turn turn;
  if (facts.home.empty()) return turn;
  {
    const MutexLock lock(mutex_);
    std::shared_ptr<std::mutex>& entry = turns_[{facts.home, program.digest}];
    if (!entry) entry = std::make_shared<std::mutex>();
    turn.mutex = entry;
  }
  turn.lock = std::unique_lock<std::mutex>(*turn.mutex);
  return turn;
}

Result<Installed> Install(Remote& remote, const HostFacts& facts, const Release& release,
                          SharedHomes& homes, const SentOf& sent) {
  const std::string dir = facts.programs + "/releases/" + release.id;
  LAUNCH_RETURN_IF_ERROR(MakeDirectories(remote, facts));
  Installed done;
  if (facts.installed == release.id) {
    LAUNCH_ASSIGN_OR_RETURN(const std::string missing, MissingPrograms(remote, release, dir));
    if (missing.empty()) return done;
  }
  LAUNCH_RETURN_IF_ERROR(
      Must(remote, "umask 022; mkdir -p " + ShellQuote(dir), "", kCommand, "mkdir"));
  std::uint64_t total = release.bytes;
  for (const Program& program : release.programs) {
    const SharedHomes::Turn turn = homes.Await(facts, program);
    LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                            Bring(remote, facts, program, dir,
                                  [&](std::uint64_t now) { sent(done.sent + now, total); }));
    if (bytes == 0) total -= program.bytes;
    done.sent += bytes;
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string missing, MissingPrograms(remote, release, dir));
  if (!missing.empty())
    return Fail(ErrorCode::kFailedPrecondition,
                missing + ": incomplete in " + dir + " after it was installed",
                "is its disk full or damaged? `current` is as it was; run this again when that is "
                "repaired");
  const std::string link = ShellQuote(facts.programs + "/current");
  const std::string fresh = ShellQuote(facts.programs + "/.current.new") + ".$$";
  LAUNCH_RETURN_IF_ERROR(Must(remote,
                              "ln -sfn " + ShellQuote("releases/" + release.id) + " " + fresh +
                                  " && mv -fT " + fresh + " " + link + " && rm -f " +
                                  ShellQuote(dir) + "/.*.part.*",
                              "", kCommand, "switching to the release"));
  done.changed = true;
  return done;
}

Result<int> RemoveOldReleases(Remote& remote, const HostFacts& facts, const Release& release) {
  if (facts.installed == release.id) return 0;
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Must(remote,
                               ScriptOf("tidy " + ShellQuote(facts.programs + "/releases") + " " +
                                        ShellQuote(release.id) + " " + ShellQuote(facts.installed)),
                               "", kHash, "removing old releases"));
  return static_cast<int>(ParseInt(Trim(answer.output)).value_or(0));
}

}  // namespace launch::up
