#include "common/secret_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "common/text.h"

namespace launch {
namespace {

// Whole words of a name that say so ...
constexpr std::array<std::string_view, 17> kWords = {
    "TOKEN",       "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD",
    "PASSPHRASE",  "PASS",   "PWD",    "PW",      "APIKEY",   "CREDENTIAL",
    "CREDENTIALS", "AUTH",   "SAS",    "DSN",     "COOKIE"};
// ... and what a word that is written in one with another ends with: PGPASSWORD, MYPASS.
constexpr std::array<std::string_view, 6> kEnds = {"PASSWORD", "PASSWD", "PASSPHRASE",
                                                   "SECRET",   "PASS",   "APIKEY"};
// What tokens of known services begin with.
constexpr std::array<std::string_view, 21> kTokenStarts = {
    "hf_",  "ghp_",   "gho_",  "ghs_",    "github_pat_", "glpat-",  "sk-",
    "AKIA", "ASIA",   "AIza",  "ya29.",   "xoxb-",       "xoxp-",   "xoxa-",
    "gsk_", "nvapi-", "pypi-", "dop_v1_", "eyJ",         "Bearer ", "Basic "};

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsTokenChar(char c) {
  return IsNameChar(c) || c == '-' || c == '.' || c == '/' || c == '+' || c == '~';
}

std::size_t RunFrom(std::string_view text, std::size_t at, bool (*belongs)(char)) {
  std::size_t end = at;
  while (end < text.size() && belongs(text[end])) ++end;
  return end;
}

// Length of the mark that now stands from `from`, where the secret ended at `end`.
std::size_t Replace(std::string& text, std::size_t from, std::size_t end, const SecretMark& mark) {
  const std::string put = mark(std::string_view(text).substr(from, end - from));
  text.replace(from, end - from, put);
  return put.size();
}

void RemoveTokens(std::string& text, const SecretMark& mark) {
  for (const std::string_view start : kTokenStarts) {
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at)) {
      const std::size_t from = at + start.size();
      const std::size_t end = RunFrom(text, from, IsTokenChar);
      const bool inside_word = at > 0 && IsNameChar(text[at - 1]);
      if (end - from < kShortestToken || inside_word) {
        at = from;
        continue;
      }
      at = from + Replace(text, from, end, mark);
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

bool IsSecretWord(const std::string& word) {
  return std::ranges::find(kWords, word) != kWords.end();
}

bool EndsAsSecret(const std::string& word) {
  return std::ranges::any_of(
      kEnds, [&](std::string_view end) { return word.size() > end.size() && word.ends_with(end); });
}

// A name in running text: by whole words, because "tokens: 512", "tokenizer=gpt2" and "author: ana"
// stand in every log, as do "pass: 3" and "pwd: /home"; those two count as a key of JSON only.
bool IsSecretInText(std::string_view name, bool quoted) {
  const std::vector<std::string> words = WordsOf(name);
  if (words.size() == 1) {
    const std::string& word = words[0];
    if (word == "PASS" || word == "PWD") return quoted;
    const bool common = word == "TOKENS" || word == "PW" || word == "SAS" || word == "DSN";
    const bool variable = name == word && EndsAsSecret(word);
    return variable || (IsSecretWord(word) && !common);
  }
  const auto secret = [](const std::string& word) {
    return word != "TOKENS" && (IsSecretWord(word) || (EndsAsSecret(word) && word != "BYPASS"));
  };
  return words.back() == "KEY" || std::ranges::any_of(words, secret);
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
void RemoveAssigned(std::string& text, const std::vector<std::string>& names,
                    const SecretMark& mark) {
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
    const bool quoted = end < text.size() && IsQuote(text[end]);
    if (!named && !IsSecretInText(name, quoted)) continue;
    const auto value_at = ValueAfter(text, end, name.starts_with("-"));
    if (!value_at) continue;
    const auto [from, to] = ValueAt(text, *value_at);
    const std::string_view value = std::string_view(text).substr(from, to - from);
    const bool variable = std::none_of(
        name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0 || c == '-'; });
    const bool sure = named || (variable && text[end] == '=');
    if (value.empty() || value.starts_with(kRemoved)) continue;
    if (!sure && (value.size() < kShortestSecret || IsPlainValue(value))) continue;
    if (Lower(value) == "bearer" || Lower(value) == "basic") continue;  // the token follows
    clean.append(text, kept, from - kept).append(mark(value));
    kept = i = to;
  }
  text = clean.append(text, kept, std::string::npos);
}

// What of the URL whose "://" is at `colons` is secret: the password, or of the web's a user
// without one. A password may hold '@' and '/', a host never does: where a path holds an '@', too,
// more is taken than the password.
std::pair<std::size_t, std::size_t> PasswordOf(std::string_view text, std::size_t colons) {
  const std::size_t from = colons + 3;
  const std::size_t end = RunFrom(text, from, [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) == 0 && !IsQuote(c) && c != '<' && c != '>';
  });
  const std::string_view url = text.substr(from, end - from);
  const std::size_t host = std::min(url.find_first_of("/?#"), url.size());
  const std::size_t first = url.find('@');
  const std::size_t colon = url.find(':');
  if (first == std::string_view::npos) return {from, from};
  if (colon < first && colon < host) {
    const std::string_view behind = url.substr(colon + 1, host - colon - 1);
    const bool port =
        first > host && behind.find_first_not_of("0123456789") == std::string_view::npos;
    if (port) return {from, from};  // "host:8080/a@b"
    return {from + colon + 1, from + url.rfind('@')};
  }
  const std::string_view scheme = text.substr(0, colons);
  const bool web = scheme.ends_with("http") || scheme.ends_with("https");
  return web && first < host ? std::pair(from, from + first) : std::pair(from, from);
}

void RemoveUrlPasswords(std::string& text, const SecretMark& mark) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const auto [from, to] = PasswordOf(text, at);
    const bool there = to > from && !std::string_view(text).substr(from).starts_with(kRemoved);
    if (there) (void)Replace(text, from, to, mark);
  }
}

// `begin` .. end of line, for what is a list of secrets.
void RemoveCookies(std::string& text, const SecretMark& mark) {
  for (const std::string_view name : {"Cookie: ", "cookie: "}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      at += name.size();
      const std::size_t end = std::min(text.find_first_of("\r\n'\"", at), text.size());
      if (end > at) (void)Replace(text, at, end, mark);
    }
  }
}

// "-----BEGIN RSA PRIVATE KEY-----" ... "-----END"; the rest of the text where the end is missing.
void RemovePrivateKeys(std::string& text, const SecretMark& mark) {
  constexpr std::string_view kOpen = " PRIVATE KEY-----";
  for (std::size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    at += kOpen.size();
    const std::size_t begin = text.rfind("-----BEGIN ", at);
    if (begin == std::string::npos || at - begin > 64) continue;
    const std::size_t end = std::min(text.find("-----END", at), text.size());
    (void)Replace(text, at, end, mark);
  }
}

// `curl -u name:password`, `--user name:password`.
void RemoveUsersPasswords(std::string& text, const SecretMark& mark) {
  for (const std::string_view flag : {" -u ", " --user ", " --user="}) {
    for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at)) {
      at += flag.size();
      const auto [from, to] = ValueAt(text, at);
      const std::size_t colon = text.find(':', from);
      if (colon >= to || text.substr(from, to - from).find("://") != std::string::npos) continue;
      if (text.substr(colon + 1, to - colon - 1).find_first_not_of("0123456789") ==
          std::string::npos)
        continue;  // "docker run --user 1000:1000"
      (void)Replace(text, colon + 1, to, mark);
    }
  }
}

// "password is pa55word": what is said of a password has no digits.
void RemoveToldPasswords(std::string& text, const SecretMark& mark) {
  constexpr std::string_view kIs = " is ";
  for (std::size_t at = text.find(kIs); at != std::string::npos; at = text.find(kIs, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && IsNameChar(text[begin - 1])) --begin;
    if (!IsSecretInText(std::string_view(text).substr(begin, at - begin), false)) continue;
    const auto [from, to] = ValueAt(text, at + kIs.size());
    const std::string_view value = std::string_view(text).substr(from, to - from);
    if (value.size() < kShortestSecret || IsPlainValue(value) || value.starts_with(kRemoved))
      continue;
    if (std::ranges::any_of(value, IsDigit)) (void)Replace(text, from, to, mark);
  }
}

}  // namespace

bool IsPlainValue(std::string_view value) {
  constexpr std::array<std::string_view, 5> kPlainWords = {"TRUE", "FALSE", "NONE", "NULL", "UNK"};
  const std::string upper = Upper(value);
  return std::find(kPlainWords.begin(), kPlainWords.end(), upper) != kPlainWords.end() ||
         value.find_first_not_of("0123456789.,-+eE%") == std::string_view::npos;
}

bool IsSecretName(std::string_view name) {
  const std::string upper = Upper(name);
  if (upper == "PWD" || upper == "OLDPWD") return false;  // the shell's directories
  const std::vector<std::string> words = WordsOf(upper);
  constexpr std::array<std::string_view, 5> kParts = {"TOKEN", "SECRET", "PASSWORD", "CREDENTIAL",
                                                      "AUTH"};
  return words.back() == "KEY" || words.back() == "PAT" ||
         std::ranges::any_of(words, IsSecretWord) || std::ranges::any_of(words, EndsAsSecret) ||
         std::ranges::any_of(
             kParts, [&](std::string_view part) { return upper.find(part) != std::string::npos; });
}

std::string_view UrlPassword(std::string_view url) {
  const std::size_t colons = url.find("://");
  if (colons == std::string_view::npos) return {};
  const auto [from, to] = PasswordOf(url, colons);
  return url.substr(from, to - from);
}

void RemoveSecretTexts(std::string& text, const std::vector<std::string>& names,
                       const SecretMark& mark) {
  RemovePrivateKeys(text, mark);
  RemoveCookies(text, mark);
  RemoveUsersPasswords(text, mark);
  RemoveAssigned(text, names, mark);
  RemoveTokens(text, mark);
  RemoveUrlPasswords(text, mark);
  RemoveToldPasswords(text, mark);
}

}  // namespace launch
