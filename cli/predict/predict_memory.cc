// predict-memory CASES.csv: the predicted peak memory of every row, as CSV on stdout.
//
// --set NAME=VALUE replaces a constant of the model, for cross-validation; --terms prints the
// limiting phase's terms of every row instead of the table.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/predict/memory_case.h"
#include "common/units.h"

namespace launch {

namespace {

struct NamedConstant {
  const char* name;
  double MemoryConstants::*field;
};

constexpr NamedConstant kConstants[] = {
    {"logits_eager", &MemoryConstants::logits_eager},
    {"logits_half", &MemoryConstants::logits_half},
    {"logits_fused", &MemoryConstants::logits_fused},
    {"logits_kernel", &MemoryConstants::logits_kernel},
    {"logits_metrics", &MemoryConstants::logits_metrics},
    {"logits_copied", &MemoryConstants::logits_copied},
    {"logits_compiled", &MemoryConstants::logits_compiled},
    {"logits_chunked", &MemoryConstants::logits_chunked},
    {"norm_eager", &MemoryConstants::norm_eager},
    {"norm_plain", &MemoryConstants::norm_plain},
    {"norm_fused", &MemoryConstants::norm_fused},
    {"fragmentation", &MemoryConstants::fragmentation},
    {"variable_length", &MemoryConstants::variable_length},
    {"typical_sample", &MemoryConstants::typical_sample},
    {"sub_group_bytes", &MemoryConstants::sub_group_bytes},
    {"four_bit", &MemoryConstants::four_bit},
    {"unstated_unit", &MemoryConstants::unstated_unit},
    {"context_gib", &MemoryConstants::context_gib},
    {"scores_amp", &MemoryConstants::scores_amp},
};

struct Options {
  std::string path;
  bool terms = false;
  MemoryConstants constants;
};

Result<Options> ReadOptions(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--terms") {
      options.terms = true;
    } else if (words[i] == "--set" && i + 1 < words.size()) {
      const std::string& text = words[++i];
      const auto equals = text.find('=');
      const double value =
          equals == std::string::npos ? -1 : ParseDouble(text.substr(equals + 1)).value_or(-1);
      const auto* found = std::find_if(
          std::begin(kConstants), std::end(kConstants),
          [&](const NamedConstant& constant) { return text.substr(0, equals) == constant.name; });
      if (value < 0 || found == std::end(kConstants))
        return Fail(ErrorCode::kInvalidArgument, "--set " + text + ": no such constant or value");
      options.constants.*(found->field) = value;
    } else if (!words[i].starts_with("--") && options.path.empty()) {
      options.path = words[i];
    } else {
      return Fail(ErrorCode::kInvalidArgument, "unexpected word " + words[i],
                  "predict-memory CASES.csv [--set NAME=VALUE]... [--terms]");
    }
  }
  if (options.path.empty())
    return Fail(ErrorCode::kInvalidArgument, "no table given", "predict-memory CASES.csv");
  return options;
}

void PrintTerms(const std::string& id, const MemoryEstimate& estimate, const MemoryPeak& peak) {
  std::printf("%s %s", id.c_str(), std::string(ToString(peak.phase)).c_str());
  for (const MemoryPhase& phase : estimate.phases)
    if (phase.kind == peak.phase)
      for (const MemoryTerm& term : phase.terms)
        std::printf(" | %s %.2f", term.name.c_str(), term.bytes / kGiBytes);
  std::printf("\n");
}

// One bad row does not hide the others: it is answered with empty cells and a line on stderr.
void Predict(const CaseTable& table, std::size_t row, const Options& options) {
  const std::string id(table.Text(row, "id"));
  const auto read = ReadMemoryCase(table, row);
  const auto answer = read ? AnswerMemoryCase(*read, options.constants)
                           : Result<MemoryAnswer>(Unexpected(read.error()));
  if (!answer) {
    std::fprintf(stderr, "%s: %s\n", id.c_str(), answer.error().message.c_str());
    if (!options.terms) std::printf("%s,,,,,\n", CsvCell(id).c_str());
    return;
  }
  if (options.terms) return PrintTerms(id, answer->estimate, answer->peak);
  const std::string fits = answer->fits ? std::string(ToString(*answer->fits)) : "";
  std::printf("%s,%.3f,%.3f,%.3f,%s,%s\n", CsvCell(id).c_str(), answer->peak.bytes / kGiBytes,
              answer->peak.low / kGiBytes, answer->peak.high / kGiBytes,
              std::string(ToString(answer->peak.phase)).c_str(), fits.c_str());
}

int Run(const std::vector<std::string>& words) {
  const auto options = ReadOptions(words);
  const auto table = options ? CaseTable::Read(options->path, MemoryAnswerColumns())
                             : Result<CaseTable>(Unexpected(options.error()));
  if (!table) {
    std::fprintf(stderr, "%s\n", FormatError(table.error()).c_str());
    return ExitCodeOf(table.error().code);
  }
  if (!options->terms) std::printf("id,peak_gib,low_gib,high_gib,phase,fits\n");
  for (std::size_t row = 0; row < table->size(); ++row) Predict(*table, row, *options);
  return 0;
}

}  // namespace

}  // namespace launch

int main(int argc, char** argv) { return launch::Run({argv + 1, argv + argc}); }
