#include "planner/start/secret_env.h"

#include "common/secret_text.h"

namespace launch {
namespace {

// A value that only names another variable, or a file, tells nothing.
bool TellsSecret(const EnvEntry& entry) {
  if (!entry.value) return IsSecretName(entry.name);  // the caller's own, which is stored too
  const std::string& value = *entry.value;
  if (!UrlPassword(value).empty()) return true;
  const bool refers = value.starts_with('$') || value.starts_with('/') || value.starts_with('~');
  return IsSecretName(entry.name) && !refers && value.size() >= kShortestSecret &&
         !IsPlainValue(value);
}

}  // namespace

std::vector<Finding> SecretsInClear(const JobSpec& spec) {
  std::string names;
  for (const EnvEntry& entry : spec.env) {
    if (TellsSecret(entry)) names += (names.empty() ? "" : ", ") + entry.name;
  }
  if (names.empty()) return {};
  return {Finding{"secret_in_env", Severity::kWarning, std::nullopt,
                  "env: " + names + " looks like a secret, and `env` is stored and shown in clear",
                  "",
                  "write `secrets: [" + names +
                      "]` instead: the values come from your environment, are sealed, and are "
                      "deleted when the job ends"}};
}

}  // namespace launch
