// What looks like a secret in running text: by the name that stands before it, or by its form.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

inline constexpr std::string_view kRemoved = "[removed]";
inline constexpr std::size_t kShortestSecret = 6;  // "1" or "true" would take half a log away
inline constexpr std::size_t kShortestToken = 16;

// What stands in the place of a secret; begins with kRemoved.
using SecretMark = std::function<std::string(std::string_view secret)>;
inline std::string PlainMark(std::string_view) { return std::string(kRemoved); }

// Whether an environment variable of this name holds a secret: HF_TOKEN, AWS_SECRET_ACCESS_KEY,
// DB_PASS, PGPASSWORD ... May say yes of one that holds none (TOKENIZERS_PARALLELISM), which harms
// nobody.
bool IsSecretName(std::string_view name);

// A number or a truth value tells nothing: "pad_token: 0", "use_auth=true".
bool IsPlainValue(std::string_view value);

// The password in "scheme://user:password@host", or the user of "https://TOKEN@host" (git's usual
// form); empty: there is none.
std::string_view UrlPassword(std::string_view url);

// Removes what follows a secret's name (`NAME=`, `name: `, `"name": `, `--name `; `names` are
// such, too), passwords in URLs, of `curl -u` and of cookies, the bodies of private keys, and texts
// that have the form of a known service's token ("hf_...", "ghp_...", "AKIA...", "Bearer ...").
void RemoveSecretTexts(std::string& text, const std::vector<std::string>& names,
                       const SecretMark& mark = PlainMark);

}  // namespace launch
