#include "cli/redaction.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::string_view kGone = "[removed]";
constexpr std::size_t kShortestValue = 6;  // "1" or "true" would take half a log away
constexpr std::size_t kShortestToken = 16;
constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

// Words in the names of variables; "KEYS" and "MONKEY" are caught too, which harms nobody.
constexpr std::array<std::string_view, 9> kNameWords = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "_KEY", "AUTH"};
// What tokens of known services begin with.
constexpr std::array<std::string_view, 11> kTokenStarts = {
    "hf_",  "ghp_", "gho_",  "github_pat_", "glpat-", "sk-",
    "AKIA", "ASIA", "xoxb-", "Bearer ",     "Basic "};

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

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsQuote(char c) { return c == '"' || c == '\''; }

// The words of a name in capitals: "accessToken", "access-token" and "ACCESS_TOKEN" have the same.
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words(1);
  bool after_small = false;
  for (const char c : name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    const bool capital = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (!letter || (capital && after_small)) words.emplace_back();
    if (letter) words.back() += c;
    after_small = letter && !capital;
  }
  for (std::string& word : words) word = Upper(word);
  return words;
}

// A name in running text: by whole words, because "tokens: 512", "tokenizer=gpt2" and "author: ana"
// stand in every log.
bool IsSecretInText(std::string_view name) {
  constexpr std::array<std::string_view, 10> kSecretWords = {
      "TOKEN",      "SECRET", "PASSWORD",   "PASSWD",      "PWD",
      "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS", "AUTH"};
  const std::vector<std::string> words = WordsOf(name);
  const auto secret = [&](const std::string& word) {
    return std::find(kSecretWords.begin(), kSecretWords.end(), word) != kSecretWords.end();
  };
  // PWD alone is the shell's directory, "key" alone is a dictionary's.
  if (words.size() == 1) return words[0] != "PWD" && secret(words[0]);
  return words.back() == "KEY" || std::any_of(words.begin(), words.end(), secret);
}

// Numbers and truth values tell nothing: "pad_token: 0", "use_auth=true".
bool IsPlainValue(std::string_view value) {
  constexpr std::array<std::string_view, 5> kWords = {"TRUE", "FALSE", "NONE", "NULL", "UNK"};
  const std::string upper = Upper(value);
  return std::find(kWords.begin(), kWords.end(), upper) != kWords.end() ||
         value.find_first_not_of("0123456789.,-+eE%") == std::string_view::npos;
}

// What separates a name that ends at `at` from its value: `=`, `: `, `": "`, and for a flag blanks
// or, as in lists, `", "`. Where the value begins; nothing when no value follows.
std::optional<std::size_t> ValueAfter(std::string_view text, std::size_t at, bool flag) {
  std::size_t i = at;
  const auto skip = [&](bool (*belongs)(char)) { i = RunFrom(text, i, belongs); };
  const auto quote = [](char c) { return c == '\\' || IsQuote(c); };
  skip(quote);
  const bool quoted = i > at;
  const std::size_t blanks = i;
  skip(IsBlank);
  if (i < text.size() && (text[i] == '=' || text[i] == ':' || (flag && quoted && text[i] == ','))) {
    ++i;
    skip(IsBlank);
    return i;
  }
  return flag && !quoted && i > blanks ? std::optional(i) : std::nullopt;
}

// Where the value at `from` begins and ends, without its quotes.
std::pair<std::size_t, std::size_t> ValueAt(std::string_view text, std::size_t from) {
  const std::size_t open = RunFrom(text, from, [](char c) { return c == '\\'; });
  if (open < text.size() && IsQuote(text[open])) {
    const char close[] = {text[open], '\n', '\0'};
    std::size_t end = std::min(text.find_first_of(close, open + 1), text.size());
    while (end > open + 1 && text[end - 1] == '\\') --end;
    return {open + 1, end};
  }
  return {from, RunFrom(text, from, [](char c) {
            return std::isspace(static_cast<unsigned char>(c)) == 0 && !IsQuote(c) && c != ',' &&
                   c != '\\' && c != ';' && c != '}' && c != ')';
          })};
}

// "NAME=value", "NAME: value", "\"NAME\": \"value\"", "--name value" where the name is a secret's.
void RemoveAssigned(std::string& text, const std::vector<std::string>& names) {
  const auto of_name = [](char c) { return IsNameChar(c) || c == '-'; };
  std::string clean;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = RunFrom(text, i, of_name);
    if (end == i) {
      ++i;
      continue;
    }
    const std::string_view name = std::string_view(text).substr(i, end - i);
    i = end;
    const bool named = std::find(names.begin(), names.end(), name) != names.end();
    if (!named && !IsSecretInText(name)) continue;
    const auto value_at = ValueAfter(text, end, name.starts_with("-"));
    if (!value_at) continue;
    const auto [from, to] = ValueAt(text, *value_at);
    const std::string_view value = std::string_view(text).substr(from, to - from);
    const bool variable = std::none_of(
        name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0 || c == '-'; });
    const bool sure = named || (variable && text[end] == '=');
    if (value.empty() || value.starts_with(kGone)) continue;
    if (!sure && (value.size() < kShortestValue || IsPlainValue(value))) continue;
    if (Lower(value) == "bearer" || Lower(value) == "basic") continue;  // the token follows
    clean.append(text, kept, from - kept).append(kGone);
    kept = i = to;
  }
  text = clean.append(text, kept, std::string::npos);
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
  const std::string upper = Upper(name);
  return std::any_of(kNameWords.begin(), kNameWords.end(),
                     [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

Redaction::Redaction(const JobView& job, const Variables& here) {
  if (job.spec) names_ = job.spec->secrets;
  for (const std::string& name : names_) {
    const auto found = here.find(name);
    if (found == here.end() || found->second.empty()) {
      unknown_.push_back(name);
    } else {
      Learn(found->second);
    }
  }
  const auto learn = [&](const std::string& name, const std::string& value) {
    if (IsSecret(name)) Learn(value);
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

// As it is, as JSON and a URL spell it, and each line of it: a key's file is printed so.
void Redaction::Learn(const std::string& value) {
  const auto learn = [&](std::string text) {
    if (text.size() >= kShortestValue) values_.push_back(std::move(text));
  };
  learn(value);
  const std::string json = nlohmann::json(value).dump(-1, ' ', false, kReplace);
  learn(json.substr(1, json.size() - 2));
  std::string url;
  for (const char c : value) {
    if (IsNameChar(c) || c == '-' || c == '.' || c == '~') {
      url += c;
    } else {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      url += {'%', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  learn(url);
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

std::string Redaction::Clean(std::string_view text) const {
  std::string clean(text);
  for (const std::string& value : values_) ReplaceAll(clean, value);
  RemoveAssigned(clean, names_);
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
