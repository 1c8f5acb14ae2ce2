#include "cli/render_verdict.h"

#include <nlohmann/json.hpp>

namespace launch {
namespace {

using Json = nlohmann::ordered_json;

std::string Actions(const std::string& action) {
  if (action == "no_retry") return "correct it first: another try ends the same way";
  if (action == "retry_with_change") return "try again with the change above";
  if (action == "retry_elsewhere") return "try again on another node or GPU";
  if (action == "retry_same") return "try once more, unchanged";
  if (action == "resume") return "resume; it costs no retry";
  return "nothing to do";
}

}  // namespace

std::string VerdictJson(const Verdict& verdict) {
  Json json = {{"version", 1}};
  json["label"] = verdict.label;
  json["confidence"] = ToString(verdict.confidence);
  json["rank"] = verdict.rank ? Json(*verdict.rank) : Json(nullptr);
  json["node"] = verdict.node ? Json(verdict.node->value) : Json(nullptr);
  json["evidence"] = verdict.evidence;
  json["cause"] = verdict.cause;
  json["remedy"] = verdict.remedy;
  json["action"] = verdict.action;
  json["numbers"] = Json::object();
  for (const auto& [name, value] : verdict.numbers) json["numbers"][name] = value;
  json["changes"] = verdict.changes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string VerdictLine(const Verdict& verdict) {
  std::string line = verdict.label + " (" + std::string(ToString(verdict.confidence)) + ")";
  if (verdict.rank) line += ", rank " + std::to_string(*verdict.rank);
  return line + ": " + verdict.cause;
}

std::string VerdictText(const Verdict& verdict) {
  std::string text = "verdict   " + verdict.label;
  if (verdict.label != "none") text += " (" + std::string(ToString(verdict.confidence)) + ")";
  const bool stands = verdict.label == "hang" || verdict.label == "collective_mismatch";
  if (verdict.rank && verdict.label != "none") {
    text += (stands ? ", rank " : ", first failing rank ") + std::to_string(*verdict.rank);
  }
  if (verdict.node && verdict.label != "none") text += " on " + verdict.node->value;
  text += "\ncause     " + verdict.cause + "\n";
  const char* name = "evidence  ";
  for (const std::string& line : verdict.evidence) {
    text += name + line + "\n";
    name = "          ";
  }
  if (!verdict.remedy.empty()) text += "remedy    " + verdict.remedy + "\n";
  text += "action    " + verdict.action + ": " + Actions(verdict.action) + "\n";
  return text;
}

}  // namespace launch
