#include "common/network_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "common/json_number.h"

namespace launch {
namespace {

using nlohmann::json;

constexpr std::string_view kAnswerMark = "\n@launch-network-test ";
constexpr std::size_t kMostTail = 300;
constexpr std::int64_t kMostPlaces = 65'536;
constexpr double kLargestMeasure = 1e12;  // microseconds, Mbit/s: no network is near

std::string StringIn(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<double> MeasureIn(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 0 && value <= kLargestMeasure ? std::optional(value) : std::nullopt;
}

bool TrueIn(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}

// Absent where it does not say of which node it is.
std::optional<PeerFact> PeerOf(const json& from) {
  const auto place = WholeNumberIn(from, "place", 0, kMostPlaces - 1);
  if (!place) return std::nullopt;
  PeerFact peer;
  peer.place = static_cast<int>(*place);
  peer.address = StringIn(from, "address");
  peer.ok = TrueIn(from, "ok");
  peer.why = StringIn(from, "why");
  peer.mbit = MeasureIn(from, "mbit");
  peer.latency_us = MeasureIn(from, "latency_us");
  return peer;
}

}  // namespace

NetworkFacts NoAnswer(std::string why) {
  NetworkFacts facts;
  facts.why = std::move(why);
  return facts;
}

NetworkFacts ReadNetworkAnswer(std::string_view output) {
  const auto at = output.rfind(kAnswerMark);
  if (at == std::string_view::npos) {
    const auto end = output.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) return NoAnswer("the test of the network said nothing");
    const std::string_view text = output.substr(0, end + 1);
    return NoAnswer(std::string(text.substr(text.size() - std::min(text.size(), kMostTail))));
  }
  const std::string_view line = output.substr(at + kAnswerMark.size());
  const json answer = json::parse(line.substr(0, line.find('\n')), nullptr, false);
  if (!answer.is_object()) return NoAnswer("the test of the network wrote half an answer");
  NetworkFacts facts;
  facts.backend = StringIn(answer, "backend");
  facts.ok = TrueIn(answer, "ok");
  facts.why = StringIn(answer, "why");
  facts.allreduce_us = MeasureIn(answer, "allreduce_us");
  facts.allreduce_mbit = MeasureIn(answer, "allreduce_mbit");
  for (const json& peer : answer.value("peers", json::array())) {
    if (!peer.is_object()) continue;
    if (auto fact = PeerOf(peer)) facts.peers.push_back(*std::move(fact));
  }
  if (const auto nccl = answer.find("nccl"); nccl != answer.end() && nccl->is_object()) {
    facts.nccl = NcclFacts{.tested = TrueIn(*nccl, "tested"),
                           .ok = TrueIn(*nccl, "ok"),
                           .why = StringIn(*nccl, "why"),
                           .version = StringIn(*nccl, "version"),
                           .transport = StringIn(*nccl, "transport"),
                           .us = MeasureIn(*nccl, "us"),
                           .mbit = MeasureIn(*nccl, "mbit")};
  }
  return facts;
}

}  // namespace launch
