#include "cli/job_fields.h"

#include <algorithm>

namespace launch {
namespace {

// Calls `use` with every spelling of the field until it returns true.
template <class Use>
bool AnySpelling(const JobField& field, Use use) {
  if (use(field.name)) return true;
  std::string_view rest = field.aliases;
  while (!rest.empty()) {
    const std::size_t space = rest.find(' ');
    if (use(rest.substr(0, space))) return true;
    if (space == std::string_view::npos) break;
    rest.remove_prefix(space + 1);
  }
  return false;
}

}  // namespace

std::vector<JobFieldGroup> JobFieldGroups() {
  return {{"Where it runs", ResourceFields()},
          {"What runs", ProgramFields()},
          {"How it trains", TrainingFields()},
          {"When things go wrong", SafetyFields()},
          {"When it starts, and how often", OrderFields()},
          {"Known, not in this version", LaterFields()}};
}

const JobField* FindJobField(std::string_view name) {
  for (const JobFieldGroup& group : JobFieldGroups())
    for (const JobField& field : group.fields)
      if (AnySpelling(field, [&](std::string_view spelling) { return spelling == name; }))
        return &field;
  return nullptr;
}

bool IsJobBlock(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  for (const JobFieldGroup& group : JobFieldGroups())
    for (const JobField& field : group.fields)
      if (AnySpelling(field, [&](std::string_view s) { return s.starts_with(prefix); }))
        return true;
  return false;
}

std::vector<std::string> JobFieldNames(std::string_view block) {
  const std::string prefix = block.empty() ? "" : std::string(block) + ".";
  std::vector<std::string> names;
  for (const JobFieldGroup& group : JobFieldGroups())
    for (const JobField& field : group.fields)
      AnySpelling(field, [&](std::string_view spelling) {
        if (!spelling.starts_with(prefix)) return false;
        spelling.remove_prefix(prefix.size());
        names.emplace_back(spelling.substr(0, spelling.find('.')));
        return false;
      });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace launch
