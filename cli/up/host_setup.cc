#include "cli/up/host_setup.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/up/embedded_texts.h"
#include "common/pki.h"
#include "common/quoted.h"
#include "common/text.h"

namespace launch::up {
namespace {

constexpr Millis kShort(30'000);
constexpr Millis kUpload(600'000);

std::string Current(const HostFacts& facts, std::string_view program) {
  return facts.programs + "/current/" + std::string(program);
}

std::string Last(std::string_view text) {
  constexpr std::size_t kMost = 600;
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "it said nothing";
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.size() > kMost ? text.size() - kMost : 0));
}

Result<void> MustBeDone(const RemoteAnswer& answer, const std::string& what) {
  if (answer.code == 0) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              what + " failed: " + Last(answer.errors.empty() ? answer.output : answer.errors),
              "run this again when that is mended");
}

Result<RemoteAnswer> Must(Remote& remote, const std::string& command, std::string_view input,
                          Millis deadline, const std::string& what) {
  LAUNCH_ASSIGN_OR_RETURN(RemoteAnswer answer, remote.Run(command, input, deadline));
  LAUNCH_RETURN_IF_ERROR(MustBeDone(answer, what));
  return answer;
}

std::string_view KeeperWord(Keeper keeper) {
  switch (keeper) {
    case Keeper::kSystem:
      return "system";
    case Keeper::kUser:
      return "user";
    case Keeper::kNobody:
      return "plain";
  }
  return "plain";
}

std::string Service(std::string_view verb, const std::string& name, const HostFacts& facts,
                    const std::vector<std::string>& arguments) {
  std::string command = "umask 077; sh -c " + ShellQuote(kServiceScript) + " sh " +
                        std::string(verb) + " " + ShellQuote(name) + " " +
                        ShellQuote(facts.programs) + " " + ShellQuote(facts.state) + " " +
                        std::string(KeeperWord(facts.keeper));
  for (const std::string& argument : arguments) command += " " + ShellQuote(argument);
  return command;
}

Result<Started> Keep(Remote& remote, const HostFacts& facts, const std::string& name,
                     const std::vector<std::string>& arguments) {
  std::string joined;
  for (const std::string& argument : arguments) joined += " " + argument;
  const std::string unit = facts.keeper == Keeper::kNobody ? "" : UnitText(name, facts, joined);
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer answer,
      Must(remote, Service("keep", name, facts, arguments), unit, kShort, "starting " + name));
  return answer.output.find("running") != std::string::npos ? Started::kRunning : Started::kStarted;
}

}  // namespace

std::string UnitText(std::string_view program, const HostFacts& facts,
                     const std::string& arguments) {
  const std::string_view text = program == "launch-agent" ? kAgentUnit : kControllerUnit;
  // What a user's own manager may set; the sandbox needs the system's.
  constexpr std::array<std::string_view, 13> kForUsers = {"StartLimitIntervalSec=",
                                                          "[",
                                                          "Description=",
                                                          "Restart=",
                                                          "RestartSec=",
                                                          "Delegate=",
                                                          "KillMode=",
                                                          "OOMPolicy=",
                                                          "TasksMax=",
                                                          "UMask=",
                                                          "ExecStart=",
                                                          "WantedBy=",
                                                          "After="};
  std::string unit;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.starts_with("#") || line.starts_with("ConditionPathExists=") ||
        line.starts_with("StateDirectory")) {
      continue;
    }
    if (line.starts_with("ExecStart=")) line = "ExecStart=" + Current(facts, program) + arguments;
    if (facts.keeper == Keeper::kUser) {
      const bool allowed = std::any_of(kForUsers.begin(), kForUsers.end(),
                                       [&](std::string_view key) { return line.starts_with(key); });
      if (!allowed && !line.empty()) continue;
      if (line.starts_with("WantedBy=")) line = "WantedBy=default.target";
    } else if (line.starts_with("ProtectSystem=")) {
      line += "\nReadWritePaths=" + facts.state;
    }
    unit += line + "\n";
  }
  return unit;
}

Result<HostFacts> Probe(Remote& remote) {
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer, remote.Run("sh", kProbeScript, kShort));
  HostFacts facts = ReadFacts(answer.output);
  if (facts.uid >= 0 || answer.errors.find("sudo") == std::string::npos) return facts;
  return Fail(ErrorCode::kPermissionDenied, "sudo there does not let us in: " + Last(answer.errors),
              "allow it without a password (NOPASSWD) for this user, or leave sudo out: then "
              "everything is installed for this user alone");
}

namespace {

// Root's programs may be seen by all.
Result<void> MakeDirectories(Remote& remote, const HostFacts& facts) {
  if (facts.made) return {};
  const std::string programs = ShellQuote(facts.programs);
  std::string command = "umask 077; mkdir -p " + programs + " " + ShellQuote(facts.state);
  if (facts.uid == 0) command += " && chmod 755 " + programs;
  LAUNCH_RETURN_IF_ERROR(Must(remote, command, "", kShort, "mkdir"));
  return {};
}

// Whether the release is there and current. What is there was compared with its digest when it
// came; a file of another length was damaged since.
Result<bool> IsInstalled(Remote& remote, const HostFacts& facts, const Release& release,
                         const std::string& dir) {
  if (facts.installed != release.id) return false;
  std::string command;
  for (const Program& program : release.programs) {
    const std::string path = ShellQuote(dir + "/" + program.name);
    command += (command.empty() ? "" : " && ") + ("[ -x " + path) + " ] && [ $(wc -c < " + path +
               ") -eq " + std::to_string(program.bytes) + " ]";
  }
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer, remote.Run(command, "", kShort));
  return answer.code == 0;
}

}  // namespace

Result<bool> Install(Remote& remote, const HostFacts& facts, const Release& release,
                     const SentOf& sent) {
  const std::string releases = facts.programs + "/releases";
  const std::string dir = releases + "/" + release.id;
  LAUNCH_RETURN_IF_ERROR(MakeDirectories(remote, facts));
  LAUNCH_ASSIGN_OR_RETURN(const bool there, IsInstalled(remote, facts, release, dir));
  if (there) return false;
  LAUNCH_RETURN_IF_ERROR(
      Must(remote, "umask 022; mkdir -p " + ShellQuote(dir), "", kShort, "mkdir"));
  bool uploaded = false;
  std::uint64_t total = release.bytes;
  std::uint64_t before = 0;
  for (const Program& program : release.programs) {
    const std::string path = ShellQuote(dir + "/" + program.name);
    const std::string sum = "[ \"$(sha256sum < " + path;
    const std::string is = " | cut -c1-64)\" = " + program.digest + " ]";
    LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer same,
                            remote.Run("[ -x " + path + " ] && " + sum + is, "", kShort));
    if (same.code == 0) {
      total -= program.bytes;
      continue;
    }
    LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, ReadProgram(program));
    const std::string part = ShellQuote(dir + "/." + program.name + ".part") + ".$$";
    LAUNCH_ASSIGN_OR_RETURN(
        const RemoteAnswer answer,
        remote.Send("umask 022; cat > " + part + " && [ \"$(sha256sum < " + part + is +
                        " && chmod 755 " + part + " && mv -f " + part + " " + path,
                    bytes, kUpload, [&](std::uint64_t now) { sent(before + now, total); }));
    LAUNCH_RETURN_IF_ERROR(MustBeDone(answer, "uploading " + program.name));
    before += program.bytes;
    uploaded = true;
  }
  const std::string link = ShellQuote(facts.programs + "/current");
  const std::string fresh = ShellQuote(facts.programs + "/.current.new") + ".$$";
  LAUNCH_RETURN_IF_ERROR(Must(remote,
                              "ln -sfn " + ShellQuote("releases/" + release.id) + " " + fresh +
                                  " && mv -fT " + fresh + " " + link + " && rm -f " +
                                  ShellQuote(dir) + "/.*.part.*",
                              "", kShort, "switching to the release"));
  return uploaded;
}

Result<std::string> ClusterOfController(Remote& remote, const HostFacts& facts) {
  if (facts.controller.empty()) return std::string();
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer answer,
      Must(remote, "cat " + ShellQuote(facts.state + "/controller/operator/cert.pem"), "", kShort,
           "reading the operator's certificate"));
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts certificate, ReadCertificate(answer.output));
  return certificate.identity.cluster;
}

Result<ControllerMade> StartController(Remote& remote, const HostFacts& facts,
                                       const std::string& cluster, int port) {
  const std::string state = facts.state + "/controller";
  LAUNCH_RETURN_IF_ERROR(Must(remote,
                              "[ -s " + ShellQuote(state + "/ca.pem") + " ] || " +
                                  ShellQuote(Current(facts, "launch-controller")) +
                                  " init --state " + ShellQuote(state) + " --name " +
                                  ShellQuote(cluster),
                              "", kShort, "launch-controller init"));
  ControllerMade made;
  LAUNCH_ASSIGN_OR_RETURN(
      made.started, Keep(remote, facts, "launch-controller",
                         {"run", "--state", state, "--listen", "0.0.0.0:" + std::to_string(port)}));
  // One command for the three: each costs a shell over there.
  constexpr std::string_view kBetween = "-- next --\n";
  const std::string dir = ShellQuote(state + "/operator");
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer answer,
      Must(remote,
           "cd " + dir + " && cat ca.pem && echo '-- next --' && cat cert.pem && " +
               "echo '-- next --' && cat key.pem",
           "", kShort, "reading the operator's credentials"));
  const std::size_t first = answer.output.find(kBetween);
  const std::size_t second = answer.output.find(kBetween, first + 1);
  if (second == std::string::npos)
    return Fail(ErrorCode::kDataLoss, "the operator's credentials are not whole in " + state);
  made.ca_pem = answer.output.substr(0, first);
  made.certificate_pem =
      answer.output.substr(first + kBetween.size(), second - first - kBetween.size());
  made.key_pem = answer.output.substr(second + kBetween.size());
  made.authority = Sha256Hex(made.ca_pem);
  return made;
}

Result<void> Join(Remote& remote, const HostFacts& facts, const std::string& token, bool again) {
  LAUNCH_RETURN_IF_ERROR(Must(remote,
                              ShellQuote(Current(facts, "launch-agent")) + " join --state-dir " +
                                  ShellQuote(facts.state + "/agent") + (again ? " --rejoin" : ""),
                              token + "\n", kShort, "joining the cluster"));
  return {};
}

Result<Started> StartAgent(Remote& remote, const HostFacts& facts) {
  std::vector<std::string> arguments = {"run", "--state-dir", facts.state + "/agent"};
  // /run is root's; agents of other users of this machine lock their own devices.
  if (facts.uid != 0) arguments.insert(arguments.end(), {"--lock-dir", facts.state + "/locks"});
  return Keep(remote, facts, "launch-agent", arguments);
}

namespace {

// Ranks outlive their agent, and a controller that is gone cannot be asked for them. A supervisor
// that just saw its rank end gets some time.
constexpr const char* kSupervisors =
    "real=$(readlink -f \"$1\")\n"
    "look() {\n"
    "  for file in $(grep -las '^launch-shim' /proc/[0-9]*/cmdline); do\n"
    "    process=${file%/cmdline}\n"
    "    [ -O \"$process\" ] || [ \"$(id -u)\" = 0 ] || continue\n"
    "    case $(readlink \"$process/exe\") in \"\" | \"$real\"/*) echo \"${process#/proc/}\" ;; "
    "esac\n"
    "  done\n"
    "}\n"
    "i=0\n"
    "while [ $i -lt 50 ] && [ -n \"$(look)\" ]; do sleep 0.1; i=$((i + 1)); done\n"
    "echo $(look)\n";

Result<void> MustHaveNoRanks(Remote& remote, const HostFacts& facts) {
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Must(remote,
                               "sh -c " + ShellQuote(kSupervisors) + " sh " +
                                   ShellQuote(facts.programs) + " 2>/dev/null",
                               "", kShort, "looking for ranks"));
  const std::string_view alive = Trim(answer.output);
  if (alive.empty()) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              "ranks run on it: their launch-shim is process " + std::string(alive),
              "bring the controller back (`launch up`) and cancel their jobs; nothing was changed "
              "here");
}

}  // namespace

Result<void> Remove(Remote& remote, const HostFacts& facts, const std::string& authority,
                    bool purge) {
  const auto ours = [&](const std::string& found) { return found.empty() || found == authority; };
  if (!ours(facts.authority) || !ours(facts.controller))
    return Fail(ErrorCode::kFailedPrecondition, "what is on it belongs to another cluster",
                "end that one by its own name; nothing was changed here");
  if (purge) LAUNCH_RETURN_IF_ERROR(MustHaveNoRanks(remote, facts));
  for (const char* name : {"launch-agent", "launch-controller"}) {
    LAUNCH_RETURN_IF_ERROR(
        Must(remote, Service("end", name, facts, {}), "", kShort, std::string("ending ") + name));
  }
  if (!purge) return {};
  std::string command = "rm -rf";
  for (const char* part : {"/current", "/releases"})
    command += " " + ShellQuote(facts.programs + part);
  for (const char* part :
       {"/agent", "/controller", "/locks", "/launch-agent.log", "/launch-controller.log"})
    command += " " + ShellQuote(facts.state + part);
  command += "; rmdir " + ShellQuote(facts.programs) + " " + ShellQuote(facts.state) +
             " 2>/dev/null; true";
  LAUNCH_RETURN_IF_ERROR(Must(remote, command, "", kUpload, "removing files"));
  return {};
}

}  // namespace launch::up
