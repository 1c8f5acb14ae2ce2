// predict-verdict CASES.jsonl: the verdict of each log, one JSON line a case, for judging the rules
// offline. Reads the fields id, log and exit_code, nothing else.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "diagnosis/verdict.h"

namespace {

using Json = nlohmann::ordered_json;

constexpr int kBadUsage = 2;

int Predict(std::istream& cases) {
  const launch::CompiledSignatures signatures;
  std::string line;
  for (int number = 1; std::getline(cases, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("id") || !row.contains("log") ||
        !row["log"].is_string()) {
      std::fprintf(stderr, "predict-verdict: line %d is not a case with id and log\n", number);
      return kBadUsage;
    }
    launch::NodeEvidence node;
    if (row.contains("exit_code") && row["exit_code"].is_number_integer())
      node.exit_code = row["exit_code"].get<std::int64_t>();
    const launch::Verdict verdict =
        launch::Diagnose(row["log"].get_ref<const std::string&>(), node, signatures);
    const Json out = {
        {"id", row["id"]},
        {"label", verdict.label},
        {"confidence", launch::ToString(verdict.confidence)},
        {"action", verdict.action},
        {"advice", verdict.cause + (verdict.remedy.empty() ? "" : "; ") + verdict.remedy}};
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: predict-verdict CASES.jsonl\n");
    return kBadUsage;
  }
  std::ifstream cases(argv[1]);
  if (!cases) {
    std::fprintf(stderr, "predict-verdict: cannot read %s\n", argv[1]);
    return kBadUsage;
  }
  return Predict(cases);
}
