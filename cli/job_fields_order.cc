// Fields that say when a job may start, and how often it is there.
#include "cli/begin_time.h"
#include "cli/job_fields.h"
#include "common/text.h"

namespace launch {
namespace {

Result<void> SetArray(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> parts, value.Texts());
  Result<ArraySpec> array = ParseArray(Joined(parts, ","));
  if (!array) return Unexpected(value.Place(array.error()));
  if (draft.spec.array && !draft.spec.array->sweep.empty())
    return value.Bad("stands beside `sweep`",
                     draft.on_command_line ? "leave it out: the sweep has a job for each of its " +
                                                 std::to_string(draft.spec.array->indices.size()) +
                                                 " points; -- sweep='{...}' gives it other values"
                                           : "keep one of them: a sweep is an array");
  draft.spec.array = std::move(*array);
  return {};
}

// {lr: [1e-5, 3e-5], seed: [1, 2]}: the values stay as they are written.
Result<void> SetSweep(JobDraft& draft, const FieldValue& value) {
  const YamlNode& node = value.node();
  if (node.kind != YamlNode::Kind::kMap)
    return value.Bad("needs a map of parameters", "sweep: {lr: [1e-5, 3e-5], seed: [1, 2]}");
  std::vector<SweepAxis> axes;
  for (const auto& [key, list] : node.entries) {
    SweepAxis axis{key.scalar, {}};
    if (!IsVariableName(axis.name))
      return value.BadItem(key, "`" + axis.name + "` is not the name of a variable",
                           "the ranks see each parameter as a variable of its name");
    if (list.kind == YamlNode::Kind::kScalar) axis.values.push_back(list.scalar);
    for (const YamlNode& item : list.items) {
      if (item.kind != YamlNode::Kind::kScalar)
        return value.BadItem(item, axis.name + " needs a list of plain values");
      axis.values.push_back(item.scalar);
    }
    if (axis.values.empty()) return value.BadItem(list, axis.name + " has no values");
    axes.push_back(std::move(axis));
  }
  Result<ArraySpec> array = MakeSweep(std::move(axes));
  if (!array) return Unexpected(value.Place(array.error()));
  if (draft.spec.array && draft.spec.array->sweep.empty())
    return value.Bad("stands beside `array`", "keep one of them: a sweep is an array");
  draft.spec.array = std::move(*array);
  return {};
}

Result<void> SetDependsOn(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, value.Texts());
  draft.spec.depends_on.clear();
  for (const std::string& text : texts) {
    Result<std::vector<Dependency>> some = ParseDependencies(text);
    if (!some) return Unexpected(value.Place(some.error()));
    draft.spec.depends_on.insert(draft.spec.depends_on.end(), some->begin(), some->end());
  }
  return {};
}

constexpr JobField kOrderFields[] = {
    {"array", "", "1-20, 0,3,7-9, 0-20:5, with %N", "one job",
     "A job for each index, N at once; the ranks see LAUNCH_ARRAY_INDEX.", SetArray},
    {"sweep", "matrix", "map of lists", "none",
     "A job for each point of the grid; the ranks see each parameter as a variable.", SetSweep},
    {"depends_on", "dependency", "list of afterok:ID, afterany, afternotok, after, singleton",
     "none",
     "Starts when all of these hold; a bare ID means afterok. One that can never hold ends "
     "the job.",
     SetDependsOn},
    {"begin", "", "2026-12-01T20:00, 20:00, now+2h", "at once", "Does not start before.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       Result<WallTime> begin = ParseBegin(text, SystemClock().WallNow());
       if (!begin) return Unexpected(value.Place(begin.error()));
       draft.spec.begin = *begin;
       return {};
     }},
};

}  // namespace

std::span<const JobField> OrderFields() { return kOrderFields; }

}  // namespace launch
