// Answers the controller's reads of rank logs, in turn and within the credit of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/link/log_source.h"
#include "common/ids.h"

namespace launch::v1 {
class BulkDown;
class BulkDown_Read;
class BulkUp;
}  // namespace launch::v1

namespace launch::agent {

// There is one for each bulk stream, used by that stream's thread only.
class LogServer {
 public:
  explicit LogServer(LogSource& logs) : logs_(logs) {}

  // Read, Credit, Close. What is invalid is answered with an End that says why.
  void Accept(const v1::BulkDown& message);

  // The next message to write, or absent when no read can go on now. Reads take turns.
  std::optional<v1::BulkUp> Next();

  // Some read with credit waits for bytes that its rank has not written yet: poll.
  bool Following() const;

 private:
  struct ActiveRead {
    Key key;
    Rank rank = 0;
    std::string stream;
    std::uint64_t next = 0;
    std::uint64_t credit = 0;
    bool follow = false;
    bool at_end = false;                 // nothing new at the last try
    std::optional<std::string> problem;  // answered by End
  };
  void Open(const v1::BulkDown_Read& message);
  std::optional<v1::BulkUp> Serve(std::uint64_t id, ActiveRead& read);

  LogSource& logs_;
  std::map<std::uint64_t, ActiveRead> reads_;
  std::uint64_t last_served_ = 0;
};

}  // namespace launch::agent
