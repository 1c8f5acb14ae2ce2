#include "cli/up/host_words.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "common/hostlist.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

bool IsV6(const std::string& text) {
  std::array<unsigned char, 16> address;
  return ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

// A node is called without colons.
std::string NameOfV6(const std::string& address) {
  std::string name = (address.front() == ':' ? "0" : "") + address;
  std::replace(name.begin(), name.end(), ':', '-');
  return name;
}

// "fd00::9", "[fd00::9]", "[fd00::9]:2222" into host and rest (":2222"); absent for anything else.
struct V6Part {
  std::string address;
  std::string_view rest;
};
std::optional<V6Part> V6Of(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    V6Part part{std::string(text.substr(1, close - 1)), text.substr(close + 1)};
    if (part.address.find(':') == std::string::npos) return std::nullopt;
    return part;
  }
  if (std::count(text.begin(), text.end(), ':') < 2 || text.find('[') != std::string_view::npos)
    return std::nullopt;
  return V6Part{std::string(text), {}};
}

Result<void> CheckV6(const std::string& address) {
  const std::string hint = "for example fd00::9; with a port: [fd00::9]:2222";
  if (!IsV6(address))
    return Fail(ErrorCode::kInvalidArgument, "'" + address + "' is not an IPv6 address", hint);
  if (address.starts_with("fe80:") || address.starts_with("FE80:"))
    return Fail(ErrorCode::kInvalidArgument,
                address + " is a link-local address, which means another machine on each link",
                "write a global or unique local one, " + hint);
  return {};
}

// "ana@gpu[01-02]:2222" and what it expands to.
Result<std::vector<Host>> ReadPart(std::string_view part) {
  Host like;
  std::string_view rest = Trim(part);
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    like.user = std::string(rest.substr(0, at));
    rest.remove_prefix(at + 1);
    if (like.user.empty())
      return Fail(ErrorCode::kInvalidArgument, "no user before '@' in '" + std::string(part) + "'",
                  "write user@host");
    LAUNCH_RETURN_IF_ERROR(CheckUser(like.user));
  }
  if (const auto v6 = V6Of(rest)) {
    LAUNCH_RETURN_IF_ERROR(CheckV6(v6->address));
    like.name = NameOfV6(v6->address);
    like.address = v6->address;
    if (!v6->rest.empty()) {
      if (v6->rest.front() != ':')
        return Fail(ErrorCode::kInvalidArgument,
                    "'" + std::string(v6->rest) + "' stands behind " + v6->address,
                    "write [fd00::9]:2222");
      LAUNCH_ASSIGN_OR_RETURN(like.port, ReadPort(v6->rest.substr(1)));
    }
    return std::vector<Host>{std::move(like)};
  }
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos) {
    LAUNCH_ASSIGN_OR_RETURN(like.port, ReadPort(rest.substr(colon + 1)));
    rest = rest.substr(0, colon);
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto names, ExpandHostlist(rest));
  std::vector<Host> hosts;
  for (const std::string& name : names) {
    LAUNCH_RETURN_IF_ERROR(CheckHostName(name));
    hosts.push_back(like);
    hosts.back().name = name;
  }
  return hosts;
}

}  // namespace

Result<int> ReadPort(std::string_view text) {
  const auto port = ParseInt(text);
  if (!port || *port < 1 || *port > 65535)
    return Fail(ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not a port",
                "write a number from 1 to 65535");
  return static_cast<int>(*port);
}

Result<void> CheckHostName(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 253 && name[0] != '-' &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
      });
  if (good) return {};
  return Fail(ErrorCode::kInvalidArgument, "'" + name + "' is not a host name",
              "write names or addresses: gpu[01-16], ana@10.0.0.7:2222, [fd00::9]");
}

Result<void> CheckUser(const std::string& user) {
  constexpr std::string_view kOfShells = "'`\"$;&<>|(){} \t";
  const bool good =
      !user.empty() && user[0] != '-' && user.back() != '\\' &&
      std::none_of(user.begin(), user.end(), [&](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f || kOfShells.find(c) != std::string_view::npos;
      });
  if (good) return {};
  return Fail(ErrorCode::kInvalidArgument, Quoted(user) + " is not a user name",
              "write it as ssh takes it: ana, ana@lab.org");
}

Result<std::string> ReadAddress(const std::string& text) {
  if (const auto v6 = V6Of(text); v6 && v6->rest.empty()) {
    LAUNCH_RETURN_IF_ERROR(CheckV6(v6->address));
    return v6->address;
  }
  LAUNCH_RETURN_IF_ERROR(CheckHostName(text));
  return text;
}

std::vector<std::string> HostParts(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Result<void> AppendHosts(std::string_view text, std::vector<Host>& hosts) {
  for (const std::string& part : HostParts(text)) {
    LAUNCH_ASSIGN_OR_RETURN(auto more, ReadPart(part));
    hosts.insert(hosts.end(), more.begin(), more.end());
  }
  return {};
}

}  // namespace launch::up
