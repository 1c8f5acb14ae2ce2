// Takes the secrets of a job out of what others may read: verdicts, events, bundles.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/view.h"

namespace launch {

class Redaction {
 public:
  using Variables = std::map<std::string, std::string>;

  // `names` are called secrets by the job; of the variables that are known the values of these are
  // learned, of those with such names (IsSecretName), and passwords in URLs.
  Redaction(std::vector<std::string> names, const Variables& known);

  // Learns the values of variables with such names, and of those that the job calls secrets. The
  // controller gives the latter to nobody: `here` is where the caller has them.
  explicit Redaction(const JobView& job, const Variables& here = {});

  // From now on each mark ends with six digits of the secret's HMAC under `salt`: the same secret
  // has the same mark, so that a reader sees whether two ranks had one, and nobody without the salt
  // can try words on it. A salt of its own for each text that leaves the house, kept nowhere.
  void MarkWith(std::string salt) { salt_ = std::move(salt); }

  // Names that the job calls secrets and that have no value `here`: texts with their values stay.
  const std::vector<std::string>& unknown() const { return unknown_; }

  // The text without the learned values, however JSON, a URL or base64 spells them, and without
  // what looks like a secret (common/secret_text.h).
  std::string Clean(std::string_view text) const;
  // The job with the values of its secrets replaced, whatever they look like.
  JobView Clean(JobView job) const;

 private:
  bool IsSecret(const std::string& name) const;
  void LearnVariable(const std::string& name, const std::string& value);
  void Learn(const std::string& value);
  void Sort();
  std::string MarkOf(std::string_view secret) const;

  struct Spelled {
    std::string text;    // as it may stand somewhere
    std::string secret;  // what it spells
  };
  std::string salt_;
  std::vector<std::string> names_;  // that the job calls secrets
  std::vector<Spelled> values_;     // longest first
  std::vector<std::string> unknown_;
};

}  // namespace launch
