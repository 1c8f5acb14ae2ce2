// Takes secrets out of what leaves the cluster.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/view.h"

namespace launch {

// HF_TOKEN, AWS_SECRET_ACCESS_KEY, WANDB_API_KEY, DB_PASSWORD ...
bool IsSecretName(std::string_view name);

class Redaction {
 public:
  using Variables = std::map<std::string, std::string>;

  // Learns the values of variables with such names, and of those that the job calls secrets. The
  // controller gives the latter to nobody: `here` is where the caller has them.
  explicit Redaction(const JobView& job, const Variables& here = {});

  // Names that the job calls secrets and that have no value `here`: texts with their values stay.
  const std::vector<std::string>& unknown() const { return unknown_; }

  // Without those values, however JSON or a URL spells them; without what follows a secret's name
  // (`NAME=`, `name: `, `"name": `, `--name `); without texts that have the form of a token
  // ("hf_...", "ghp_...", "AKIA...", "Bearer ...") or of a password in a URL.
  std::string Clean(std::string_view text) const;
  // The job with the values of its secrets replaced, whatever they look like.
  JobView Clean(JobView job) const;

 private:
  bool IsSecret(const std::string& name) const;
  void Learn(const std::string& value);

  std::vector<std::string> names_;   // that the job calls secrets
  std::vector<std::string> values_;  // longest first
  std::vector<std::string> unknown_;
};

}  // namespace launch
