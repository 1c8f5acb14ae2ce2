#include "controller/config.h"

#include <algorithm>
#include <utility>

#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch::controller {

Result<HostPort> ParseHostPort(std::string_view text) {
  const auto colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = {};
  }
  std::int64_t port = -1;
  if (colon != std::string_view::npos) port = ParseInt(text.substr(colon + 1)).value_or(-1);
  if (host.empty() || port < 0 || port > 65535) {
    return Fail(ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not HOST:PORT",
                "for example 0.0.0.0:7470, [::]:7470, or 127.0.0.1:0 for any free port");
  }
  return HostPort{std::string(host), static_cast<int>(port)};
}

Result<ControllerConfig> ParseControllerConfig(std::string_view text, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  const YamlMap map(root, file, "");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(
      {"listen", "advertise", "log_level", "request_deadline", "stop_within", "keep_events"}));
  ControllerConfig config;
  LAUNCH_ASSIGN_OR_RETURN(const auto listen, map.String("listen"));
  if (listen) {
    if (const auto parsed = ParseHostPort(*listen); !parsed) {
      return map.Bad(*map.Get("listen"), "listen", parsed.error().message, parsed.error().hint);
    }
    config.listen = *listen;
  }
  LAUNCH_ASSIGN_OR_RETURN(config.advertise, map.StringList("advertise"));
  for (const std::string& one : config.advertise) {
    if (const auto parsed = ParseHostPort(one); !parsed || parsed->port == 0) {
      return map.Bad(*map.Get("advertise"), "advertise", "'" + one + "' is not HOST:PORT",
                     "write what agents can dial, for example head.example.org:7470");
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto level, map.String("log_level"));
  if (level) {
    const std::vector<std::string> levels = {"debug", "info", "warn", "error"};
    if (std::find(levels.begin(), levels.end(), *level) == levels.end()) {
      return map.Bad(*map.Get("log_level"), "log_level", "'" + *level + "' is not a level",
                     "debug, info, warn or error");
    }
    config.log_level = *level;
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto keep, map.String("keep_events"));
  if (keep) {
    const auto count = ParseInt(*keep);
    if (!count || *count < 1'000 || *count > 1'000'000'000) {
      return map.Bad(*map.Get("keep_events"), "keep_events",
                     "'" + *keep + "' is not a number from 1000 to 1000000000");
    }
    config.keep_events = static_cast<std::uint64_t>(*count);
  }
  for (const auto& [key, into] : {std::pair("request_deadline", &config.request_deadline),
                                  std::pair("stop_within", &config.stop_within)}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto written, map.String(key));
    if (!written) continue;
    const auto duration = ParseDuration(*written);
    if (!duration) {
      return map.Bad(*map.Get(key), key, duration.error().message, duration.error().hint);
    }
    if (*duration < Millis{100} || *duration > Millis{300'000}) {
      return map.Bad(*map.Get(key), key, "'" + *written + "' is not between 100ms and 5m");
    }
    *into = *duration;
  }
  return config;
}

}  // namespace launch::controller
