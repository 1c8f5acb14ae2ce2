// Files of other schedulers and launchers as job files, for `launch import`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/yaml_reader.h"

namespace launch {

struct Imported {
  std::string from;                // "Slurm script", "SkyPilot task" ...
  std::string yaml;                // a job file that this version reads
  std::vector<std::string> notes;  // what was dropped or read in another way, one sentence each
};

// Tells by its content what the file is. kUnimplemented, with the name of the format: dstack,
// Determined, Kubernetes; kInvalidArgument: none of the known ones, or a line that cannot be meant.
Result<Imported> ImportText(std::string_view text, const std::string& path);

// ---- the folder's inner seams ----

// A job file while it is made: fields in the order of the documentation.
class JobFileDraft {
 public:
  void Set(std::string_view field, std::string value);    // as a plain scalar, quoted if need be
  void SetRaw(std::string_view field, std::string yaml);  // "[1, 2]", "{a: b}"
  void Env(const std::string& name, const std::string& value);
  void EnvOfCaller(const std::string& name);  // required from whoever submits the job
  void Block(std::string_view field, const std::string& text);  // bash text
  bool Has(std::string_view field) const;
  void Note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  Imported Finish(std::string from, const std::string& path) &&;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
  std::vector<std::pair<std::string, std::optional<std::string>>> env_;  // absent: the caller's
  std::vector<std::string> notes_;
};

// Every use of the variable `from`, as a whole name, becomes one of `to`.
void RenameVariable(std::string& text, std::string_view from, std::string_view to);

// Whether the document has words of SkyPilot's and no field of a job file that SkyPilot lacks.
bool IsSkyPilotTask(const YamlNode& root);
bool IsSlurmScript(std::string_view text);
Result<Imported> ImportSlurm(std::string_view text, const std::string& path);
bool IsHostfile(std::string_view text);
Result<Imported> ImportHostfile(std::string_view text, const std::string& path);
Result<Imported> ImportAccelerate(const YamlNode& root, const std::string& path);
Result<Imported> ImportSkyPilot(const YamlNode& root, const std::string& path);

}  // namespace launch
