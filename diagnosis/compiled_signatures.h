// The signature table ready to run: phrases in one filter, patterns compiled; made once, shared.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "diagnosis/literal_filter.h"
#include "diagnosis/signature.h"

namespace launch {

class BoundedPattern;

class CompiledSignatures {
 public:
  CompiledSignatures();
  ~CompiledSignatures();

  struct Row {
    const Signature* signature = nullptr;
    std::unique_ptr<const BoundedPattern> pattern;  // null: the phrase is enough
    std::unique_ptr<const BoundedPattern> veto;     // null: none
  };

  struct Match {
    std::string first;   // the first capture that took part
    std::string second;  // the next one
  };
  // False: the line is not this message.
  bool Matches(std::size_t row, std::string_view text, Match* match) const;
  // The line says that it is not, whatever its pattern matches.
  bool IsVetoed(std::size_t row, std::string_view text) const;

  const std::vector<Row>& rows() const { return rows_; }
  const LiteralFilter& filter() const { return filter_; }
  // Rows that a phrase of filter() belongs to.
  const std::vector<std::size_t>& RowsOf(std::size_t phrase) const { return rows_of_[phrase]; }

  // What is wrong with the table itself, one line each; empty in a correct build.
  std::vector<std::string> Faults() const;

 private:
  struct Phrases {
    std::vector<std::string> texts;
    std::vector<std::vector<std::size_t>> rows;
  };
  static Phrases Collect(const std::vector<Row>& rows);

  std::vector<Row> rows_;
  Phrases phrases_;
  const std::vector<std::vector<std::size_t>>& rows_of_;
  LiteralFilter filter_;
};

}  // namespace launch
