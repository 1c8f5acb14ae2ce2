#include "common/controller_config.h"

#include <algorithm>
#include <utility>

#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {

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
  return ControllerConfigOf(root, file, "");
}

Result<ControllerConfig> ControllerConfigOf(const YamlNode& root, const std::string& file,
                                            const std::string& path) {
  const YamlMap map(root, file, path);
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(
      {"listen", "advertise", "log_level", "request_deadline", "stop_within", "keep_events",
       "keep_jobs", "max_queued", "max_jobs_of_a_user", "max_copies_of_a_user", "operator_exec",
       "certificate_life", "controller_certificate_life"}));
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
  struct Count {
    const char* key;
    std::uint64_t* into;
    std::int64_t least;
    std::int64_t most;
  };
  for (const Count& count :
       {Count{"keep_events", &config.keep_events, 1'000, 1'000'000'000},
        Count{"keep_jobs", &config.keep_jobs, 100, 10'000'000},
        Count{"max_queued", &config.max_queued, 1, 1'000'000},
        Count{"max_jobs_of_a_user", &config.max_jobs_of_a_user, 1, 1'000'000}}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto written, map.String(count.key));
    if (!written) continue;
    const auto number = ParseInt(*written);
    if (!number || *number < count.least || *number > count.most) {
      return map.Bad(*map.Get(count.key), count.key,
                     "'" + *written + "' is not a number from " + std::to_string(count.least) +
                         " to " + std::to_string(count.most));
    }
    *count.into = static_cast<std::uint64_t>(*number);
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto copies, map.String("max_copies_of_a_user"));
  if (copies) {
    const auto size = ParseBytes(*copies);
    if (!size) {
      return map.Bad(*map.Get("max_copies_of_a_user"), "max_copies_of_a_user", size.error().message,
                     size.error().hint);
    }
    config.max_copies_of_a_user = size->bytes;
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto operator_exec, map.Bool("operator_exec"));
  config.operator_exec = operator_exec.value_or(false);
  struct Time {
    const char* key;
    Millis* into;
    Millis least;
    Millis most;
  };
  constexpr Millis kYear{365LL * 24 * 3'600'000};
  for (const Time& time :
       {Time{"request_deadline", &config.request_deadline, Millis{100}, Millis{300'000}},
        Time{"stop_within", &config.stop_within, Millis{100}, Millis{300'000}},
        Time{"certificate_life", &config.certificate_lives.member, Millis{5'000}, kYear},
        Time{"controller_certificate_life", &config.certificate_lives.controller, Millis{5'000},
             kYear}}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto written, map.String(time.key));
    if (!written) continue;
    const auto duration = ParseDuration(*written);
    if (!duration) {
      return map.Bad(*map.Get(time.key), time.key, duration.error().message, duration.error().hint);
    }
    if (*duration < time.least || *duration > time.most) {
      return map.Bad(*map.Get(time.key), time.key,
                     "'" + *written + "' is not between " + FormatDurationShort(time.least) +
                         " and " + FormatDurationShort(time.most));
    }
    *time.into = *duration;
  }
  return config;
}

}  // namespace launch
