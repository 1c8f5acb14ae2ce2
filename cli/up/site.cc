#include "cli/up/site.h"

#include <ctime>
#include <map>

#include "cli/up/host_setup.h"
#include "cli/up/owner.h"
#include "cli/up/this_machine.h"
#include "common/pki.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::up {

std::vector<HostResult> ResultsOf(std::vector<Site>& sites) {
  std::vector<HostResult> results;
  results.reserve(sites.size());
  for (Site& site : sites) results.push_back(std::move(site.result));
  return results;
}

std::vector<Site> SitesOf(const HostSet& set) {
  std::vector<Site> sites(set.hosts.size());
  for (std::size_t i = 0; i < sites.size(); ++i) sites[i].result.host = set.hosts[i];
  return sites;
}

std::size_t HeadOf(const HostSet& set) {
  const auto found = std::find_if(set.hosts.begin(), set.hosts.end(),
                                  [&](const Host& host) { return host.name == set.head; });
  return found == set.hosts.end() ? 0 : static_cast<std::size_t>(found - set.hosts.begin());
}

void Say(const UpOptions& options, Site& site, std::string step) {
  if (options.say) options.say(site.result.host.name, step);
  site.result.steps.push_back(std::move(step));
}

void Enter(const UpOptions& options, const Site& site, Stage stage, std::uint64_t sent,
           std::uint64_t total) {
  if (!options.progress) return;
  options.progress({.host = site.result.host.name, .stage = stage, .sent = sent, .total = total});
}

void Failed(const UpOptions& options, Site& site, Error error) {
  if (options.progress)
    options.progress(
        {.host = site.result.host.name, .stage = Stage::kFailed, .why = error.message});
  site.result.error = std::move(error);
}

Result<void> Open(Site& site, const UpOptions& options) {
  Enter(options, site, Stage::kConnecting);
  const Host& host = site.result.host;
  if (host.local) {
    site.remote = ThisMachine();
  } else {
    LAUNCH_ASSIGN_OR_RETURN(site.remote, Connect(host, options.ssh));
  }
  site.result.reached = true;
  site.opened = std::chrono::steady_clock::now();
  return {};
}

Result<void> OpenAgain(Site& site, const UpOptions& options) {
  constexpr std::chrono::seconds kIdle(20);
  if (std::chrono::steady_clock::now() - site.opened < kIdle) return {};
  return Open(site, options);
}

void RefuseTwins(std::vector<Site>& sites, const UpOptions& options) {
  std::map<std::string, std::vector<Site*>> by_place;
  for (Site& site : sites)
    if (!site.result.error && !site.result.facts.place.empty())
      by_place[site.result.facts.place].push_back(&site);
  for (const auto& [place, twins] : by_place) {
    if (twins.size() < 2) continue;
    std::vector<std::string> names;
    for (const Site* site : twins) names.push_back(site->result.host.name);
    const auto certificate = ReadCertificate(twins.front()->result.facts.certificate);
    const bool known =
        certificate && std::ranges::find(names, certificate->identity.name) != names.end();
    for (Site* site : twins) {
      const auto node = MustBeNode(site->result.host, site->result.facts);
      if (known && node) continue;
      site->result.of_others = true;
      if (!node) {
        Failed(options, *site, node.error());
        continue;
      }
      Failed(options, *site,
             Error{ErrorCode::kFailedPrecondition, Joined(names, ", ") + " lead to one machine",
                   "a machine is one node: correct the address of all but one, or leave them out; "
                   "nothing was done for this one",
                   std::nullopt});
    }
  }
}

Result<void> Reach(Site& site, const UpOptions& options, Supply& supply, bool head) {
  LAUNCH_RETURN_IF_ERROR(Open(site, options));
  Enter(options, site, Stage::kLooking);
  HostNeeds needs;
  needs.clock = static_cast<std::int64_t>(std::time(nullptr));
  LAUNCH_ASSIGN_OR_RETURN(site.result.facts, Probe(*site.remote));
  const HostFacts& facts = site.result.facts;
  auto release = supply.releases.For(facts.arch, head);
  needs.has_programs = release.has_value();
  if (release) {
    site.release = std::move(*release);
    // What is installed needs no more room.
    needs.bytes = facts.installed == site.release.id ? 0 : site.release.bytes;
  }
  return CheckHost(facts, needs);
}

Result<void> InstallOn(Site& site, const UpOptions& options, Supply& supply) {
  if (site.installed) return {};
  const HostFacts& facts = site.result.facts;
  const std::string what = site.release.id + " (" + FormatBytes(site.release.bytes);
  if (options.dry_run) {
    if (facts.installed != site.release.id)
      Say(options, site, "would install " + what + ") into " + facts.programs);
    site.installed = true;
    return {};
  }
  LAUNCH_ASSIGN_OR_RETURN(const Installed installed,
                          Install(*site.remote, facts, site.release, supply.homes,
                                  [&](std::uint64_t sent, std::uint64_t total) {
                                    Enter(options, site, Stage::kSending, sent, total);
                                  }));
  site.installed = true;
  if (!installed.changed) return {};
  const bool all = installed.sent == site.release.bytes;
  Say(options, site,
      "installed " + what + (all ? "" : ", " + FormatBytes(installed.sent) + " of it sent") +
          ") into " + facts.programs);
  return {};
}

Result<void> Tidy(Site& site, const UpOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(const int removed,
                          RemoveOldReleases(*site.remote, site.result.facts, site.release));
  if (removed > 0)
    Say(options, site,
        "removed " + std::to_string(removed) +
            (removed == 1 ? " older release" : " older releases"));
  return {};
}

void SayNewSettings(const UpOptions& options, Site& site, const char* name,
                    const std::string& wanted, const std::string& there) {
  if (wanted.empty() ? there.empty() : Sha256Hex(wanted) == there) return;
  const std::string path = site.result.facts.state + "/" + name;
  std::string what;
  // Behind the first line, which says whose file it is.
  for (std::size_t begin = wanted.find('\n') + 1; begin > 0 && begin < wanted.size();) {
    const std::size_t end = wanted.find('\n', begin);
    what += (what.empty() ? "" : ", ") + wanted.substr(begin, end - begin);
    begin = end + 1;
  }
  Say(options, site,
      (options.dry_run ? "would write " : "new settings in ") + path + ": " +
          (what.empty() ? "none" : what));
}

}  // namespace launch::up
