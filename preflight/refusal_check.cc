#include "preflight/refusal_check.h"

#include <algorithm>
#include <array>

#include "common/text.h"
#include "preflight/remedies.h"
#include "preflight/report.h"

namespace launch {
namespace {

struct RefusalCode {
  std::string_view refused;   // as agents say it
  std::string_view code;      // of preflight/codes.h
  std::string_view evidence;  // where the node names nothing more
};
constexpr std::array<RefusalCode, 4> kCodes = {{
    {"port_busy", "port_busy", "bind() to each port of the range, when the attempt was prepared"},
    {"gpu_busy", "gpu_busy", "the node's lists of GPU processes and locks, when it was prepared"},
    {"gpu_unhealthy", "gpu_unhealthy", "NVML, when the attempt was prepared"},
    {"disk_full", "disk_low", "the agent's own state directory, when the attempt was prepared"},
}};

bool IsDigitText(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// "20000-29999" in the sentence as a filter of ss; digits alone: nobody runs a node's own words.
std::string PortFilter(std::string_view says) {
  for (std::size_t at = 0; at < says.size();) {
    const std::size_t end = std::min(says.find_first_of(" :,", at), says.size());
    const std::string_view word = says.substr(at, end - at);
    const std::size_t dash = word.find('-');
    if (dash != std::string_view::npos && word.size() <= 11 && IsDigitText(word.substr(0, dash)) &&
        IsDigitText(word.substr(dash + 1))) {
      return " 'sport >= :" + std::string(word.substr(0, dash)) +
             " and sport <= :" + std::string(word.substr(dash + 1)) + "'";
    }
    at = end + 1;
  }
  return {};
}

void AddRemedy(Finding& finding, const std::string& node, std::string_view says) {
  if (finding.code == "port_busy") {
    const std::string look = "ss -tanp" + PortFilter(says);
    finding.remedy = look + " shows who has them: end what nobody needs\nor widen `ports` in " +
                     node + "'s agent.yaml, outside of net.ipv4.ip_local_port_range";
    finding.fix = {look};
  } else if (finding.code == "gpu_busy") {
    const std::string look =
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv";
    finding.remedy = look + " shows who uses them: wait for it, or ask its owner to end it\nor " +
                     "leave the node out: exclude_nodes: " + node;
    finding.fix = {look};
  } else if (finding.code == "gpu_unhealthy") {
    finding.remedy = "exclude_nodes: " + node +
                     ", or repair it: nvidia-smi -q shows ECC, remapped rows and links";
    finding.fix = {"nvidia-smi -q"};
  } else {
    RemedyText room = RoomForState(node);
    finding.remedy = std::move(room.text);
    finding.fix = std::move(room.fix);
  }
}

}  // namespace

RefusalText SplitRefusal(std::string_view why) {
  const std::size_t end = std::min(why.find('\n'), why.size());
  return {std::string(Trim(why.substr(0, end))), std::string(Trim(why.substr(end)))};
}

std::optional<Finding> JudgeRefusal(const NodeId& node, std::string_view code,
                                    std::string_view why) {
  const auto row = std::find_if(kCodes.begin(), kCodes.end(),
                                [&](const RefusalCode& one) { return one.refused == code; });
  if (row == kCodes.end()) return std::nullopt;
  RefusalText text = SplitRefusal(why);
  Finding finding = MakeFinding(row->code, Severity::kError, node,
                                node.value + " refused the start: " + text.says);
  finding.evidence = text.evidence.empty() ? std::string(row->evidence) : std::move(text.evidence);
  AddRemedy(finding, node.value, text.says);
  return finding;
}

}  // namespace launch
