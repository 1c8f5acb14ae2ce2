// configs/controller.yaml: settings of launch-controller. Flags win over the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/yaml_reader.h"

namespace launch {

struct CertificateLives {
  Millis member{30LL * 24 * 3'600'000};
  Millis controller{90LL * 24 * 3'600'000};
  friend bool operator==(const CertificateLives&, const CertificateLives&) = default;
};

struct ControllerConfig {
  std::string listen = "0.0.0.0:7470";    // host:port; port 0 = any free one
  std::vector<std::string> advertise;     // host:port that agents and users dial; empty = derived
  std::string log_level = "info";         // debug | info | warn | error
  Millis request_deadline{10'000};        // of every request
  Millis stop_within{2'000};              // of an orderly stop
  std::uint64_t keep_events = 1'000'000;  // of the audit trail, the newest
  std::uint64_t keep_jobs = 100'000;      // after their end, the newest
  std::uint64_t max_queued = 100'000;
  std::uint64_t max_jobs_of_a_user = 10'000;                     // that are not done
  std::uint64_t max_copies_of_a_user = std::uint64_t{64} << 30;  // bytes of working directories
  // How long certificates are valid. Agents, users and the controller renew their own when two
  // thirds of it are over.
  CertificateLives certificate_lives;
  bool operator_exec = false;  // operators may run commands in jobs of others
  friend bool operator==(const ControllerConfig&, const ControllerConfig&) = default;
};

// Strict: unknown keys are refused with the nearest name.
Result<ControllerConfig> ParseControllerConfig(std::string_view text, const std::string& file);

// A map inside of another file, below the key `path`.
Result<ControllerConfig> ControllerConfigOf(const YamlNode& map, const std::string& file,
                                            const std::string& path);

struct HostPort {
  std::string host;
  int port = 0;
};
// "host:port", "[v6]:port".
Result<HostPort> ParseHostPort(std::string_view text);

}  // namespace launch
