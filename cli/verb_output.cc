#include "cli/verb_output.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/text.h"

namespace launch {
namespace {

// docs/cli-json.md says what stands in them.
// clang-format off
constexpr std::string_view kDocuments[] = {
    "calibration", "cancel", "check", "context", "dev status", "dev up", "diagnose", "drain", "env",
    "events", "explain", "history", "hold", "logs", "node drain", "node status", "node undrain",
    "nodes", "plan", "quarantine list", "quarantine release", "quarantine retest", "queue",
    "release", "requeue", "status", "submit", "token list", "top", "undrain", "update", "version",
    "wait", "why"};
// clang-format on

}  // namespace

std::string VerbPath(const CLI::App& verb) {
  const CLI::App* const above = verb.get_parent();
  if (above == nullptr || above->get_parent() == nullptr) return verb.get_name();
  return VerbPath(*above) + " " + verb.get_name();
}

const CLI::App& GivenVerb(const CLI::App& parser) {
  const CLI::App* verb = &parser;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return *verb;
}

Result<void> MustPrint(const CLI::App& parser, const App& app) {
  const CLI::App* const verb = &GivenVerb(parser);
  const std::string path = VerbPath(*verb);
  const bool document = app.WantsJson() || app.WantsYaml();
  const bool yaml_only = path == "import" && app.WantsYaml();  // a job file is what it prints
  const bool lines = path == "events" || path == "logs";       // one of JSON for each
  if ((document && !yaml_only && std::ranges::find(kDocuments, path) == std::end(kDocuments)) ||
      (lines && app.WantsYaml()))
    return Fail(ErrorCode::kInvalidArgument, "`launch " + path + "` has no " + app.output,
                "docs/cli-json.md lists the verbs that print a document");
  if (!app.WantsCells() || app.listing.contains(verb)) return {};
  std::vector<std::string> can;
  can.reserve(app.listing.size());
  for (const CLI::App* one : app.listing) can.push_back(VerbPath(*one));
  std::ranges::sort(can);
  return Fail(ErrorCode::kInvalidArgument,
              "`launch " + path + "` prints no single table, so it has no -o " + app.output,
              "tables are printed by " + Joined(can, ", "));
}

bool AsksForJson(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool flag = words[i] == "-o" || words[i] == "--output";
    if (words[i] == "--json" || words[i] == "-ojson" || words[i] == "--output=json" ||
        (flag && i + 1 < words.size() && words[i + 1] == "json"))
      return true;
  }
  return false;
}

}  // namespace launch
