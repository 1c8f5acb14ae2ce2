#include "cli/predict/case_words.h"

#include <algorithm>
#include <cctype>

#include "common/text.h"

namespace launch {

std::string Word(const CaseTable& table, std::size_t row, std::string_view column) {
  return Lower(table.Text(row, column));
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Checkpointing CheckpointingOf(const std::string& word) {
  if (Has(word, "layer")) return Checkpointing::kSelectiveLayer;
  if (Has(word, "selective")) return Checkpointing::kSelectiveOp;
  if (Has(word, "offload")) return Checkpointing::kFullOffload;
  if (word.empty() || word == "none" || word == "no" || word == "false") {
    return Checkpointing::kNone;
  }
  return Checkpointing::kFull;
}

}  // namespace launch
