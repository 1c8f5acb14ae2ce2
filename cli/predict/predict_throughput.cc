// predict-throughput CASES.csv: tokens per second and GPU of each row, as CSV on standard output.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/predict/case_table.h"
#include "cli/predict/throughput_case.h"
#include "common/error.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr const char* kUsage =
    "usage: predict-throughput [--set CONSTANT=VALUE]... [--explain] CASES.csv\n";

// Constants that were fitted; the program that fits them and leaves sources out sets them here.
double* ConstantNamed(TimeConstants& constants, std::string_view name) {
  const struct {
    const char* name;
    double* value;
  } known[] = {{"matmul_overhead", &constants.matmul_overhead},
               {"attention_overhead", &constants.attention_overhead},
               {"elementwise_bytes", &constants.elementwise_bytes},
               {"logit_bytes", &constants.logit_bytes},
               {"recompute_cost", &constants.recompute_cost},
               {"gather_exposed", &constants.gather_exposed},
               {"hop_seconds", &constants.hop_seconds}};
  for (const auto& row : known)
    if (row.name == name) return row.value;
  return nullptr;
}

Result<void> SetConstant(TimeConstants& constants, std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  double* constant = ConstantNamed(constants, text.substr(0, equals));
  const std::string_view number = text.substr(std::min(equals + 1, text.size()));
  const double value = ParseDouble(number).value_or(-1);
  if (constant == nullptr || !(value >= 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                "--set " + std::string(text) + ": no such constant, or not a number of 0 or more");
  }
  *constant = value;
  return {};
}

struct Options {
  TimeConstants constants;
  bool explain = false;
  std::string path;
};

Result<Options> ReadOptions(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--set" && i + 1 < words.size()) {
      LAUNCH_RETURN_IF_ERROR(SetConstant(options.constants, words[++i]));
    } else if (words[i] == "--explain") {
      options.explain = true;
    } else if (options.path.empty() && !words[i].starts_with("--")) {
      options.path = words[i];
    } else {
      return Fail(ErrorCode::kInvalidArgument, "not understood: " + words[i], kUsage);
    }
  }
  if (options.path.empty()) return Fail(ErrorCode::kInvalidArgument, "no table given", kUsage);
  return options;
}

Result<TimeEstimate> Predict(const CaseTable& table, std::size_t row,
                             const TimeConstants& constants) {
  LAUNCH_ASSIGN_OR_RETURN(const ThroughputCase input, ReadThroughputCase(table, row));
  return PredictTime(input.card, input.setup, input.time, input.machine, constants);
}

Result<void> Run(const std::vector<std::string>& words) {
  LAUNCH_ASSIGN_OR_RETURN(const Options options, ReadOptions(words));
  LAUNCH_ASSIGN_OR_RETURN(const CaseTable table,
                          CaseTable::Read(options.path, ThroughputColumnsNeverRead()));
  fmt::print("id,tokens_per_s_per_gpu,low,high\n");
  for (std::size_t row = 0; row < table.size(); ++row) {
    const std::string id = CsvCell(table.Text(row, "id"));
    const auto estimate = Predict(table, row, options.constants);
    if (!estimate) {
      fmt::print("{},,,\n", id);
      fmt::print(stderr, "{}: {}\n", id, estimate.error().message);
      continue;
    }
    const double rate = estimate->tokens_per_second_per_gpu;
    fmt::print("{},{:.6g},{:.6g},{:.6g}\n", id, rate,
               rate * estimate->step_seconds / estimate->high,
               rate * estimate->step_seconds / estimate->low);
    if (!options.explain) continue;
    for (const TimeTerm& term : estimate->terms)
      fmt::print(stderr, "{}: {:10.4f} s {}\n", id, term.seconds, term.name);
  }
  return {};
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  const auto done = launch::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (done) return 0;
  fmt::print(stderr, "predict-throughput: {}\n{}", done.error().message, done.error().hint);
  return 2;
}
