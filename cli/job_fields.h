// The one table of job-file fields: name, aliases, meaning, default and how the value is read.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cli/job_draft.h"
#include "common/error.h"

namespace launch {

// A row is all there is to a field: the reader, the overrides, the nearest-name hint and the table
// in docs/job-file.md are made from it.
struct JobField {
  std::string_view name;      // canonical, dotted inside a block: "batch.global"
  std::string_view aliases;   // separated by spaces; a name without a dot stands at the top
  std::string_view type;      // for the document: "count", "duration", "auto | bf16 | ..."
  std::string_view fallback;  // for the document: what holds when the field is absent
  std::string_view help;      // one sentence
  // Null: a known word of a later version, refused by name and never ignored.
  Result<void> (*set)(JobDraft& draft, const FieldValue& value);
};

std::span<const JobField> ResourceFields();  // where it runs: nodes, GPUs, memory, constraints
std::span<const JobField> ProgramFields();   // what runs: run, workdir, interpreter, environment
std::span<const JobField> TrainingFields();  // how it trains: strategy, precision, batch, model
std::span<const JobField> SafetyFields();    // what happens when things go wrong: checkpoint, retry
std::span<const JobField> OrderFields();     // when it may start, how often it is there
std::span<const JobField> LaterFields();     // known words of later versions

struct JobFieldGroup {
  std::string_view title;
  std::span<const JobField> fields;
};
std::vector<JobFieldGroup> JobFieldGroups();

// The row of a canonical name or alias, or null.
const JobField* FindJobField(std::string_view name);
// True when `name` is a block: some field or alias starts with "name.".
bool IsJobBlock(std::string_view name);
// Names to offer for a misspelt key inside `block` ("" = top level).
std::vector<std::string> JobFieldNames(std::string_view block);

}  // namespace launch
