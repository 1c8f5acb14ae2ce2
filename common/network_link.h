// What pairs of nodes carried when they were tested with each other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace launch {

// The newest measurement of one pair, kept with the node whose name sorts first.
struct MeasuredLink {
  NodeId peer;
  std::optional<double> mbit;        // Mbit/s by plain TCP, the slower direction
  std::optional<double> latency_us;  // of one small message, there only
  std::optional<double> nccl_mbit;   // Mbit/s that each node sent and got in NCCL's all-reduce
  std::string transport;             // the network that NCCL chose: "IB", "Socket"
  WallTime since{};                  // first of the measurements in a row that agree with it
  WallTime at{};                     // newest of them
  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

// The links of one node as a value that many share; equal by what it holds.
class LinkTable {
 public:
  LinkTable() = default;
  explicit LinkTable(std::vector<MeasuredLink> links)
      : links_(links.empty()
                   ? nullptr
                   : std::make_shared<const std::vector<MeasuredLink>>(std::move(links))) {}

  const std::vector<MeasuredLink>& rows() const {
    static const std::vector<MeasuredLink> none;
    return links_ == nullptr ? none : *links_;
  }
  friend bool operator==(const LinkTable& a, const LinkTable& b) {
    return a.links_ == b.links_ || a.rows() == b.rows();
  }

 private:
  std::shared_ptr<const std::vector<MeasuredLink>> links_;  // null: none
};

// Two nodes of one plan, and how long ago they were measured.
struct MeasuredPair {
  NodeId first;
  NodeId second;
  MeasuredLink link;
  Millis age{0};
};

}  // namespace launch
