#include "cli/up/host_facts.h"

#include <algorithm>
#include <cstdlib>

#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

// The floor of the release programs (docs/decisions/0006).
constexpr int kGlibcMinor = 35;
// Certificates are backdated by an hour and join lines good for 15 minutes: well below both.
constexpr std::int64_t kClockSkew = 240;

// "2.36" -> 36
std::optional<int> MinorOf(std::string_view version) {
  if (!version.starts_with("2.")) return std::nullopt;
  const std::string_view rest = version.substr(2);
  const auto minor = ParseInt(rest.substr(0, rest.find('.')));
  if (!minor) return std::nullopt;
  return static_cast<int>(*minor);
}

// One line of it, as probe.sh writes it.
std::string Pem(std::string line) {
  std::replace(line.begin(), line.end(), '|', '\n');
  return line;
}

}  // namespace

std::string_view ToString(Keeper keeper) {
  switch (keeper) {
    case Keeper::kSystem:
      return "systemd";
    case Keeper::kUser:
      return "systemd --user";
    case Keeper::kNobody:
      return "plain process";
  }
  return "plain process";
}

HostFacts ReadFacts(std::string_view output) {
  HostFacts facts;
  for (const std::string_view line : Split(output, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals);
    const std::string value(line.substr(equals + 1));
    if (name == "arch") facts.arch = value;
    if (name == "glibc") facts.glibc = value;
    if (name == "user") facts.user = value;
    if (name == "uid") facts.uid = static_cast<int>(ParseInt(value).value_or(-1));
    if (name == "programs") facts.programs = value;
    if (name == "state") facts.state = value;
    if (name == "place") facts.place = value;
    if (name == "home") facts.home = value;
    if (name == "clock") facts.clock = ParseInt(value).value_or(0);
    if (name == "made") facts.made = value == "1";
    if (name == "writable") facts.writable = value == "1";
    if (name == "executable") facts.executable = value == "1";
    if (name == "free_kib")
      facts.free_bytes =
          static_cast<std::uint64_t>(std::max<std::int64_t>(0, ParseInt(value).value_or(0))) * kKiB;
    if (name == "keeper" && value == "system") facts.keeper = Keeper::kSystem;
    if (name == "keeper" && value == "user") facts.keeper = Keeper::kUser;
    if (name == "installed") facts.installed = value;
    if (name == "controller") facts.controller = value;
    if (name == "authority") facts.authority = value;
    if (name == "agent_settings") facts.agent_settings = value;
    if (name == "controller_settings") facts.controller_settings = value;
    if (name == "certificate") facts.certificate = Pem(value);
    if (name == "controller_certificate") facts.controller_certificate = Pem(value);
  }
  return facts;
}

Result<void> CheckHost(const HostFacts& facts, const HostNeeds& needs) {
  const auto no = [](std::string message, std::string hint) {
    return Fail(ErrorCode::kFailedPrecondition, std::move(message), std::move(hint));
  };
  if (facts.uid < 0 || facts.arch.empty() || facts.programs.empty())
    return no("its shell does not run a script", "look at what `ssh HOST id` prints");
  if (!needs.has_programs)
    return no(
        "it is " + facts.arch + ", and there are no programs for that here",
        "unpack the tarball for " + facts.arch + " and name its bin directory with --programs");
  const auto minor = MinorOf(facts.glibc);
  if (!minor) return no("its C library is not glibc", "launch needs glibc 2.35 or newer");
  if (*minor < kGlibcMinor)
    return no("its glibc is " + facts.glibc + ", launch needs 2.35",
              "Ubuntu 22.04, Debian 12, RHEL 10 and newer have it");
  if (!facts.writable)
    return no(facts.programs + " or " + facts.state + " cannot be written",
              "is the disk full (df), the quota used up, or the directory another user's?");
  if (!facts.executable)
    return no("programs cannot run from " + facts.programs + ": it is mounted noexec",
              "log in as root, or ask for a home without noexec");
  if (facts.free_bytes < needs.bytes)
    return no("only " + FormatBytes(facts.free_bytes) + " are free at " + facts.programs + ", " +
                  FormatBytes(needs.bytes) + " are needed",
              "make room there");
  const std::int64_t skew = facts.clock - needs.clock;
  if (std::llabs(skew) > kClockSkew)
    return no("its clock is " + std::to_string(std::llabs(skew)) + " s " +
                  (skew > 0 ? "ahead" : "behind") + ": certificates would not be valid",
              "set it: timedatectl set-ntp true");
  return {};
}

}  // namespace launch::up
