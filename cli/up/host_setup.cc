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
constexpr Millis kRemoving(600'000);

std::string Current(const HostFacts& facts, std::string_view program) {
  return facts.programs + "/current/" + std::string(program);
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
                    const std::string& settings, const std::vector<std::string>& arguments) {
  // As the shell over there reads a file: without the last line's end.
  const std::string text = settings.substr(0, settings.find_last_not_of('\n') + 1);
  std::string command = "umask 077; sh -c " + ShellQuote(kServiceScript) + " sh " +
                        std::string(verb) + " " + ShellQuote(name) + " " +
                        ShellQuote(facts.programs) + " " + ShellQuote(facts.state) + " " +
                        std::string(KeeperWord(facts.keeper)) + " " + ShellQuote(text);
  for (const std::string& argument : arguments) command += " " + ShellQuote(argument);
  return command;
}

Result<Started> Keep(Remote& remote, const HostFacts& facts, const std::string& name,
                     const std::string& settings, std::vector<std::string> arguments) {
  if (!settings.empty()) {
    const std::string file = name.substr(name.find('-') + 1) + ".yaml";
    arguments.insert(arguments.end(), {"--config", facts.state + "/" + file});
  }
  std::string joined;
  for (const std::string& argument : arguments) joined += " " + argument;
  const std::string unit = facts.keeper == Keeper::kNobody ? "" : UnitText(name, facts, joined);
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Must(remote, Service("keep", name, facts, settings, arguments), unit,
                               kShort, "starting " + name));
  const std::string_view said = Trim(answer.output);
  const std::string_view last = said.substr(said.rfind('\n') + 1);  // none: 0
  if (last == "running") return Started::kRunning;
  if (last == "started") return Started::kStarted;
  return Fail(ErrorCode::kFailedPrecondition,
              "starting " + name + ": its shell answers " + Quoted(LastWords(said)),
              "look at what `ssh HOST true` prints: it should be nothing");
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
  for (const std::string_view one : Split(text, '\n')) {
    std::string line(one);
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
  return Fail(ErrorCode::kPermissionDenied,
              "sudo there does not let us in: " + LastWords(answer.errors),
              "allow it without a password (NOPASSWD) for this user, or leave sudo out: then "
              "everything is installed for this user alone");
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
                                       const std::string& cluster, int port, Families families,
                                       const std::string& settings) {
  const std::string state = facts.state + "/controller";
  LAUNCH_RETURN_IF_ERROR(Must(remote,
                              "[ -s " + ShellQuote(state + "/ca.pem") + " ] || " +
                                  ShellQuote(Current(facts, "launch-controller")) +
                                  " init --state " + ShellQuote(state) + " --name " +
                                  ShellQuote(cluster),
                              "", kShort, "launch-controller init"));
  ControllerMade made;
  // `::` takes both; where the kernel has no IPv6 nobody could listen on it.
  const std::string any = families == Families::kOnlyV6 ? "[::]:" : "0.0.0.0:";
  LAUNCH_ASSIGN_OR_RETURN(made.started,
                          Keep(remote, facts, "launch-controller", settings,
                               {"run", "--state", state, "--listen", any + std::to_string(port)}));
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
    return Fail(ErrorCode::kDataLoss, "the operator's credentials are incomplete in " + state);
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

Result<Started> StartAgent(Remote& remote, const HostFacts& facts, const std::string& settings) {
  std::vector<std::string> arguments = {"run", "--state-dir", facts.state + "/agent"};
  // /run is root's; agents of other users of this machine lock their own devices.
  const bool said = settings.find("\nlock_dir: ") != std::string::npos;
  if (facts.uid != 0 && !said)
    arguments.insert(arguments.end(), {"--lock-dir", facts.state + "/locks"});
  return Keep(remote, facts, "launch-agent", settings, arguments);
}

namespace {

// Ranks outlive their agent, and a controller that is gone cannot be asked for them. A supervisor
// that just saw its rank end gets some time. One in another mount namespace may show such a path
// and be another file, or one that is not here.
constexpr const char* kSupervisors =
    "real=$(readlink -f \"$1\")\n"
    "look() {\n"
    "  for file in $(grep -las '^launch-shim' /proc/[0-9]*/cmdline); do\n"
    "    process=${file%/cmdline}\n"
    "    [ -O \"$process\" ] || [ \"$(id -u)\" = 0 ] || continue\n"
    "    exe=$(readlink \"$process/exe\")\n"
    "    case $exe in \"\" | \"$real\"/*) ;; *) continue ;; esac\n"
    "    case $exe in \"\" | *\" (deleted)\") ;; *) [ \"$process/exe\" -ef \"$exe\" ] || continue "
    ";; esac\n"
    "    echo \"${process#/proc/}\"\n"
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

Result<void> Remove(Remote& remote, const HostFacts& facts, const Removal& removal) {
  if (removal.purge) LAUNCH_RETURN_IF_ERROR(MustHaveNoRanks(remote, facts));
  for (const char* name : {"launch-agent", "launch-controller"}) {
    LAUNCH_RETURN_IF_ERROR(Must(remote, Service("end", name, facts, "", {}), "", kShort,
                                std::string("ending ") + name));
  }
  if (!removal.purge && removal.leaves)
    LAUNCH_RETURN_IF_ERROR(Must(remote, "rm -rf " + ShellQuote(facts.state + "/agent/identity"), "",
                                kShort, "removing the identity"));
  if (!removal.purge) return {};
  std::string command = "rm -rf";
  for (const char* part : {"/current", "/releases"})
    command += " " + ShellQuote(facts.programs + part);
  for (const char* part : {"/agent", "/controller", "/locks", "/agent.yaml", "/controller.yaml",
                           "/launch-agent.log", "/launch-controller.log"})
    command += " " + ShellQuote(facts.state + part);
  command += "; rmdir " + ShellQuote(facts.programs) + " " + ShellQuote(facts.state) +
             " 2>/dev/null; true";
  LAUNCH_RETURN_IF_ERROR(Must(remote, command, "", kRemoving, "removing files"));
  return {};
}

}  // namespace launch::up
