#include "planner/choose/program_digest.h"

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "planner/trainer/probe_plan.h"

namespace launch {
namespace {

// FNV-1a of 64 bits over parts with their lengths. No secret depends on it: a collision would show
// one user the measurement of another job of theirs.
class Digest {
 public:
  void Add(std::string_view part) {
    AddBytes(std::to_string(part.size()) + ":");
    AddBytes(part);
  }
  std::string Hex() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

 private:
  void AddBytes(std::string_view bytes) {
    for (const char c : bytes) {
      value_ ^= static_cast<unsigned char>(c);
      value_ *= 0x100000001b3ULL;
    }
  }

  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string DigestOfProgram(const JobSpec& spec, const SubmitContext& context) {
  Digest digest;
  for (const std::string* part :
       {&spec.workdir, &spec.venv, &spec.conda, &spec.python, &spec.image, &spec.setup, &spec.run})
    digest.Add(*part);
  if (spec.venv.empty() && spec.conda.empty() && spec.python.empty()) {
    digest.Add(context.active_venv);
    digest.Add(context.active_conda);
  }
  // What a sweep varies makes another program of the same line.
  if (spec.element) {
    for (const auto& [name, value] : spec.element->values) {
      digest.Add(name);
      digest.Add(value);
    }
  }
  digest.Add(ToString(spec.launcher));
  digest.Add(ToString(spec.trainer));
  for (const EnvEntry& entry : spec.env) {
    digest.Add(entry.name);
    const auto given = context.caller_env.find(entry.name);
    digest.Add(entry.value ? *entry.value : given == context.caller_env.end() ? "" : given->second);
  }
  digest.Add("model");
  for (const auto& [name, value] : spec.model.fields) {
    if (IsProbeField(name) || name == "activation_checkpointing") continue;
    digest.Add(name);
    digest.Add(value);
  }
  digest.Add("files");
  for (const auto& [path, text] : context.files) {
    if (path.ends_with(".py")) continue;  // an edited script is still the same program
    digest.Add(path);
    digest.Add(text);
  }
  return digest.Hex();
}

}  // namespace launch
