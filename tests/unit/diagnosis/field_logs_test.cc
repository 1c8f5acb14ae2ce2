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

// Prefixes that no list knows: what stands in front of a traceback is learnt from the log itself.
TEST(FieldLogs, UnknownPrefixesKeepAPythonException) {
  const char* const kPrefixes[] = {"[pod/train-worker-3/pytorch] ",
                                   "Nov 22 03:00:01 gpu07 train.sh[4411]: ",
                                   "2026-11-22T03:00:01+0000 gpu07 train.sh[4411]: ",
                                   "2026-11-22 03:00:01.911 | ERROR    | train:main:71 - ",
                                   "2026-11-22 03:00:01,911 - root - ERROR - ",
                                   "E1122 03:00:01.911000 140211 launcher.py:71] ",
                                   "2026-11-22T03:00:01.123456Z 01E ",
                                   "2026-11-22T03:00:01.1234567Z ##[error]",
                                   "[1,mpirank:3,algo-1]<stderr>:",
                                   "[2026-11-22 03:00:01,911] [ERROR] ",
                                   "trainer-1  | ",
                                   "job/a (3): "};
  const std::string log =
      "starting\nTraceback (most recent call last):\n  File \"/w/train.py\", line 9, in <module>\n"
      "    raise RuntimeError(\"CUDA out of memory\") if x else KeyError(x)\nKeyError: 'input_ids'";
  for (const char* prefix : kPrefixes) {
    const Verdict verdict = Of(EachLine(log, prefix, "\n"));
    EXPECT_EQ(verdict.label, "python_exception") << prefix;
    EXPECT_NE(verdict.cause.find("KeyError: 'input_ids'"), std::string::npos) << verdict.cause;
    EXPECT_NE(verdict.remedy.find("train.py"), std::string::npos) << verdict.remedy;
  }
}

// Structured logging keeps a traceback in one string.
TEST(FieldLogs, ATracebackInOneStringIsRead) {
  const std::string traceback =
      "Traceback (most recent call last):\n  File \"/app/t.py\", line 9, in <module>\n    y = "
      "model(x)\nKeyError: 'input_ids'";
  std::string deep = "Traceback (most recent call last):\n";
  for (int i = 0; i < 80; ++i)
    deep += "  File \"/app/deep.py\", line 9, in f\n    return f(x - 1)\n";
  deep += "KeyError: 'input_ids'";
  for (const std::string& text : {traceback, deep}) {
    const json line = {{"levelname", "ERROR"}, {"exc_info", text}, {"message", "training failed"}};
    for (const std::string& log :
         {line.dump(), json{{"a", 1}, {"error", text}}.dump(), "E main.py] " + line.dump(-1)}) {
      const Verdict verdict = Of("{\"message\": \"step 12 loss 1.2\"}\n" + log + "\n");
      EXPECT_EQ(verdict.label, "python_exception") << log.substr(0, 200);
      EXPECT_NE(verdict.cause.find("KeyError: 'input_ids'"), std::string::npos) << verdict.cause;
    }
  }
}

}  // namespace
}  // namespace launch
