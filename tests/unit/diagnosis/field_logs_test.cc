// Logs in the noise of real runs, written from the sources and documents of the messages: a line of
// field_logs.jsonl names the source and what a reader of the log should be told.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "diagnosis/labels.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

using nlohmann::json;

std::vector<json> FieldLogs() {
  std::ifstream file(std::string(LAUNCH_SOURCE_DIR) + "/tests/unit/diagnosis/field_logs.jsonl");
  std::vector<json> logs;
  for (std::string line; std::getline(file, line);) logs.push_back(json::parse(line));
  return logs;
}

Verdict VerdictOn(const std::string& log, const json& row) {
  const json& code = row.at("exit_code");
  return Of(log, code.is_null() ? std::nullopt : std::optional<int>(code.get<int>()));
}

TEST(FieldLogs, EachHasItsLabelAndAction) {
  const std::vector<json> logs = FieldLogs();
  ASSERT_GT(logs.size(), 120u);
  for (const json& row : logs) {
    const std::string id = row.at("id");
    const Verdict verdict = VerdictOn(row.at("log"), row);
    EXPECT_EQ(verdict.label, row.at("label").get<std::string>()) << id;
    const std::string action = row.at("action").is_null()
                                   ? std::string(LabelInfoOf(verdict.label).action)
                                   : row.at("action").get<std::string>();
    EXPECT_EQ(verdict.action, action) << id;
  }
}

TEST(FieldLogs, AGoodEndHasNoVerdict) {
  for (json row : FieldLogs()) {
    row["exit_code"] = 0;
    EXPECT_EQ(VerdictOn(row.at("log"), row).label, "none") << row.at("id");
  }
}

std::string AsDockerKeepsIt(const std::string& log) {
  std::string text;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = log.find('\n', begin) + 1;
    text += json{{"log", log.substr(begin, end - begin)}}.dump();
    text.insert(text.size() - 1, R"(,"stream":"stderr","time":"2026-11-22T03:00:01.1Z")");
    text += '\n';
    begin = end;
  }
  return text;
}

// What container runtimes and Python's logging put in front of each line; each log in one of them.
TEST(FieldLogs, FormsOfContainersKeepTheLabel) {
  int form = 0;
  for (const json& row : FieldLogs()) {
    std::string log = row.at("log");
    if (++form % 3 == 0) {
      log = AsDockerKeepsIt(log + "\n");
    } else if (form % 3 == 1) {
      log = EachLine(log, "2026-11-22T03:00:01.123Z stderr F ", "\n");
    } else {
      log = EachLine(log, "2026-11-22 03:00:01,123 - ERROR - train.py:12 - ", "\n");
    }
    EXPECT_EQ(VerdictOn(log, row).label, row.at("label").get<std::string>())
        << row.at("id") << " " << log;
  }
}

}  // namespace
}  // namespace launch
