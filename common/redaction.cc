#include "common/redaction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "common/base64.h"
#include "common/pki.h"
#include "common/secret_text.h"
#include "common/text.h"

namespace launch {
namespace {

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

void ReplaceAll(std::string& text, const std::string& value, const std::string& mark) {
  for (std::size_t at = text.find(value); at != std::string::npos; at = text.find(value, at)) {
    text.replace(at, value.size(), mark);
    at += mark.size();
  }
}

std::string AsJson(const std::string& value) {
  const std::string json = nlohmann::json(value).dump(-1, ' ', false, kReplace);
  return json.substr(1, json.size() - 2);
}

std::string AsUrl(const std::string& value) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string url;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) ||
                       std::string_view("_-.~").find(c) != std::string_view::npos;
    if (plain) {
      url += c;
    } else {
      url += {'%', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return url;
}

}  // namespace

Redaction::Redaction(std::vector<std::string> names, const Variables& known)
    : names_(std::move(names)) {
  for (const std::string& name : names_) {
    const auto found = known.find(name);
    if (found == known.end() || found->second.empty()) unknown_.push_back(name);
  }
  for (const auto& [name, value] : known) LearnVariable(name, value);
  Sort();
}

Redaction::Redaction(const JobView& job, const Variables& here)
    : Redaction(job.spec ? job.spec->secrets : std::vector<std::string>{}, here) {
  if (job.spec) {
    for (const EnvEntry& entry : job.spec->env) LearnVariable(entry.name, entry.value.value_or(""));
  }
  for (const AttemptView& attempt : job.attempts) {
    for (const auto& [name, value] : attempt.env) LearnVariable(name, value);
  }
  if (job.plan) {
    for (const RankAssignment& rank : job.plan->assignments) {
      for (const auto& [name, value] : rank.env) LearnVariable(name, value);
    }
  }
  Sort();
}

void Redaction::LearnVariable(const std::string& name, const std::string& value) {
  const bool named = std::ranges::find(names_, name) != names_.end();
  if (named || (IsSecretName(name) && !IsPlainValue(value))) Learn(value);
  const std::string_view password = UrlPassword(value);
  if (!password.empty()) Learn(std::string(password));
}

// Longest first: a value may be a part of another one.
void Redaction::Sort() {
  std::sort(values_.begin(), values_.end(), [](const Spelled& a, const Spelled& b) {
    if (a.text.size() != b.text.size()) return a.text.size() > b.text.size();
    return std::tie(a.text, a.secret) < std::tie(b.text, b.secret);
  });
  const auto same = [](const Spelled& a, const Spelled& b) { return a.text == b.text; };
  values_.erase(std::unique(values_.begin(), values_.end(), same), values_.end());
}

// As it is, as JSON, a URL and Kubernetes spell it, and each line of it: a key's file is printed
// so.
void Redaction::Learn(const std::string& value) {
  const auto learn = [&](std::string text) {
    if (text.size() >= kShortestSecret) values_.push_back({std::move(text), value});
  };
  learn(value);
  learn(AsJson(value));
  learn(AsUrl(value));
  if (value.size() >= kShortestSecret) learn(ToBase64(value, kPlainAlphabet));
  if (value.find('\n') == std::string::npos) return;
  for (std::size_t begin = 0; begin < value.size();) {
    const std::size_t end = std::min(value.find('\n', begin), value.size());
    if (end - begin >= kShortestToken) learn(value.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool Redaction::IsSecret(const std::string& name) const {
  return IsSecretName(name) || std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::string Redaction::MarkOf(std::string_view secret) const {
  constexpr std::size_t kDigits = 6;
  std::string mark(kRemoved);
  if (!salt_.empty()) mark += "#" + HmacSha256Hex(salt_, secret).substr(0, kDigits);
  return mark;
}

std::string Redaction::Clean(std::string_view text) const {
  std::string clean(text);
  for (const Spelled& value : values_) {
    if (clean.find(value.text) != std::string::npos)
      ReplaceAll(clean, value.text, MarkOf(value.secret));
  }
  RemoveSecretTexts(clean, names_, [this](std::string_view secret) { return MarkOf(secret); });
  return clean;
}

JobView Redaction::Clean(JobView job) const {
  const auto clean = [&](std::map<std::string, std::string>& env) {
    for (auto& [name, value] : env) {
      if (IsSecret(name)) value = MarkOf(value);
    }
  };
  if (job.spec) {
    for (EnvEntry& entry : job.spec->env) {
      if (entry.value && IsSecret(entry.name)) entry.value = MarkOf(*entry.value);
    }
  }
  for (AttemptView& attempt : job.attempts) clean(attempt.env);
  if (job.plan) {
    for (RankAssignment& rank : job.plan->assignments) clean(rank.env);
  }
  return job;
}

}  // namespace launch
