#include "cli/redaction.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace launch {
namespace {

constexpr std::string_view kGone = "[removed]";
constexpr std::size_t kShortestValue = 6;  // "1" or "true" would take half a log away
constexpr std::size_t kShortestToken = 16;

// Words in the names of variables; "KEYS" and "MONKEY" are caught too, which harms nobody.
constexpr std::array<std::string_view, 9> kNameWords = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "_KEY", "AUTH"};
// What tokens of known services begin with.
constexpr std::array<std::string_view, 10> kTokenStarts = {
    "hf_", "ghp_", "gho_", "github_pat_", "glpat-", "sk-", "AKIA", "ASIA", "xoxb-", "Bearer "};

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsTokenChar(char c) {
  return IsNameChar(c) || c == '-' || c == '.' || c == '/' || c == '+' || c == '~';
}

std::size_t RunFrom(std::string_view text, std::size_t at, bool (*belongs)(char)) {
  std::size_t end = at;
  while (end < text.size() && belongs(text[end])) ++end;
  return end;
}

void ReplaceAll(std::string& text, const std::string& value) {
  for (std::size_t at = text.find(value); at != std::string::npos; at = text.find(value, at)) {
    text.replace(at, value.size(), kGone);
    at += kGone.size();
  }
}

void RemoveTokens(std::string& text) {
  for (const std::string_view start : kTokenStarts) {
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at)) {
      const std::size_t from = at + start.size();
      const std::size_t end = RunFrom(text, from, IsTokenChar);
      const bool inside_word = at > 0 && IsNameChar(text[at - 1]);
      if (end - from < kShortestToken || inside_word) {
        at = from;
        continue;
      }
      text.replace(from, end - from, kGone);
      at = from + kGone.size();
    }
  }
}

// "NAME=value" and "NAME: value" where the name is a secret's.
void RemoveAssigned(std::string& text) {
  for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && IsNameChar(text[begin - 1])) --begin;
    if (!IsSecretName(std::string_view(text).substr(begin, at - begin))) continue;
    std::size_t from = at + 1;
    if (from < text.size() && (text[from] == '"' || text[from] == '\'')) ++from;
    const std::size_t end = RunFrom(text, from, [](char c) {
      return std::isspace(static_cast<unsigned char>(c)) == 0 && c != '"' && c != '\'' &&
             c != ',' && c != '\\';
    });
    if (end > from) text.replace(from, end - from, kGone);
  }
}

// "https://user:password@host".
void RemoveUrlPasswords(std::string& text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const std::size_t from = at + 3;
    const std::size_t end = RunFrom(text, from, [](char c) {
      return std::isspace(static_cast<unsigned char>(c)) == 0 && c != '/' && c != '@';
    });
    if (end >= text.size() || text[end] != '@') continue;
    const std::size_t colon = text.find(':', from);
    if (colon == std::string::npos || colon >= end) continue;
    text.replace(colon + 1, end - colon - 1, kGone);
  }
}

}  // namespace

bool IsSecretName(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::any_of(kNameWords.begin(), kNameWords.end(),
                     [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

Redaction::Redaction(const JobView& job) {
  if (job.spec) names_ = job.spec->secrets;
  const auto learn = [&](const std::string& name, const std::string& value) {
    if (IsSecret(name) && value.size() >= kShortestValue) values_.push_back(value);
  };
  if (job.spec) {
    for (const EnvEntry& entry : job.spec->env) learn(entry.name, entry.value.value_or(""));
  }
  for (const AttemptView& attempt : job.attempts) {
    for (const auto& [name, value] : attempt.env) learn(name, value);
  }
  if (job.plan) {
    for (const RankAssignment& rank : job.plan->assignments) {
      for (const auto& [name, value] : rank.env) learn(name, value);
    }
  }
  std::sort(values_.begin(), values_.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
}

bool Redaction::IsSecret(const std::string& name) const {
  return IsSecretName(name) || std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::string Redaction::Clean(std::string_view text) const {
  std::string clean(text);
  for (const std::string& value : values_) ReplaceAll(clean, value);
  RemoveAssigned(clean);
  RemoveTokens(clean);
  RemoveUrlPasswords(clean);
  return clean;
}

JobView Redaction::Clean(JobView job) const {
  const auto clean = [&](std::map<std::string, std::string>& env) {
    for (auto& [name, value] : env) {
      if (IsSecret(name)) value = kGone;
    }
  };
  if (job.spec) {
    for (EnvEntry& entry : job.spec->env) {
      if (entry.value && IsSecret(entry.name)) entry.value = kGone;
    }
  }
  for (AttemptView& attempt : job.attempts) clean(attempt.env);
  if (job.plan) {
    for (RankAssignment& rank : job.plan->assignments) clean(rank.env);
  }
  return job;
}

}  // namespace launch
