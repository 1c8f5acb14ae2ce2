#include "diagnosis/doubts.h"

#include <algorithm>

#include "diagnosis/labels.h"
#include "diagnosis/xid.h"

namespace launch {

void TellMismatch(std::vector<Suspect>& suspects) {
  struct Call {
    Rank rank;
    std::string number;
    std::string kind;
  };
  const auto word = [](const std::string& text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) return std::string();
    const std::size_t from = at + mark.size();
    return text.substr(from, text.find_first_of(",) ", from) - from);
  };
  std::vector<Call> calls;
  for (Suspect& c : suspects) {
    if (!c.label.starts_with("nccl_timeout") || !c.rank) continue;
    Call call{*c.rank, word(c.text, "SeqNum="), word(c.text, "OpType=")};
    if (call.number.empty() || call.kind.empty()) continue;
    for (const Call& other : calls) {
      if (other.rank == call.rank || other.number != call.number || other.kind == call.kind)
        continue;
      c.action = "no_retry";
      c.weight += 5;
      c.cause = "Rank " + std::to_string(other.rank) + " waits in " + other.kind + " and rank " +
                std::to_string(call.rank) + " in " + call.kind + ", both in collective number " +
                call.number + ": the program does not make the same collectives on every rank";
      c.remedy = LabelInfoOf("collective_mismatch").remedy;
    }
    calls.push_back(std::move(call));
  }
}

void DoubtHardware(std::vector<Suspect>& suspects, const NodeEvidence& node) {
  for (const std::string& line : node.kernel_lines)
    if (line.find("NVRM") != std::string::npos) return;
  for (Suspect& c : suspects) {
    if (c.tier != Tier::kHardware || c.text.find("CUDA error") != std::string::npos) continue;
    c.tier = Tier::kNote;
    c.confidence = Confidence::kSymptom;
  }
}

bool NodeConfirms(std::string_view label, const NodeEvidence& node) {
  if (label == "ecc" && node.ecc_errors > 0) return true;
  return std::any_of(node.xids.begin(), node.xids.end(), [&](int code) {
    const std::string_view meaning = MeaningOfXid(code).label;
    return meaning == label || (label == "cuda_illegal_access" && meaning == "xid_app_fault");
  });
}

}  // namespace launch
