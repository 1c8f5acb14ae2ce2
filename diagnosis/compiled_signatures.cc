#include "diagnosis/compiled_signatures.h"

#include <algorithm>

#include "diagnosis/bounded_pattern.h"

namespace launch {
namespace {

constexpr int kMostCaptures = 8;

std::unique_ptr<const BoundedPattern> Compile(std::string_view pattern) {
  return pattern.empty() ? nullptr : std::make_unique<const BoundedPattern>(pattern);
}

std::vector<CompiledSignatures::Row> CompileAll() {
  std::vector<CompiledSignatures::Row> rows;
  for (const std::span<const Signature> table :
       {LauncherSignatures(), HardwareSignatures(), MemorySignatures(), EnvironmentSignatures(),
        CommunicationSignatures(), StorageSignatures(), ProgramSignatures(), ShellSignatures()}) {
    for (const Signature& signature : table)
      rows.push_back({&signature, Compile(signature.pattern), Compile(signature.veto)});
  }
  return rows;
}

}  // namespace

CompiledSignatures::Phrases CompiledSignatures::Collect(const std::vector<Row>& rows) {
  Phrases phrases;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::string_view phrase : rows[i].signature->phrases) {
      if (phrase.empty()) continue;
      const auto known = std::find(phrases.texts.begin(), phrases.texts.end(), phrase);
      const auto at = static_cast<std::size_t>(known - phrases.texts.begin());
      if (known == phrases.texts.end()) {
        phrases.texts.emplace_back(phrase);
        phrases.rows.emplace_back();
      }
      phrases.rows[at].push_back(i);
    }
  }
  return phrases;
}

CompiledSignatures::CompiledSignatures()
    : rows_(CompileAll()),
      phrases_(Collect(rows_)),
      rows_of_(phrases_.rows),
      filter_(phrases_.texts) {}

CompiledSignatures::~CompiledSignatures() = default;

bool CompiledSignatures::Matches(std::size_t row, std::string_view text, Match* match) const {
  const Row& r = rows_[row];
  const re2::StringPiece line(text.data(), text.size());
  match->first.clear();
  match->second.clear();
  if (r.pattern != nullptr) {
    re2::StringPiece captures[kMostCaptures + 1];
    const int count = std::min(r.pattern->NumberOfCapturingGroups(), kMostCaptures) + 1;
    if (!r.pattern->Match(line, 0, line.size(), RE2::UNANCHORED, captures, count)) return false;
    int taken = 0;
    for (int i = 1; i < count && taken < 2; ++i) {
      if (captures[i].data() == nullptr) continue;
      (taken++ == 0 ? match->first : match->second).assign(captures[i].data(), captures[i].size());
    }
  }
  return !IsVetoed(row, text);
}

bool CompiledSignatures::IsVetoed(std::size_t row, std::string_view text) const {
  const Row& r = rows_[row];
  return r.veto != nullptr &&
         RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *r.veto);
}

std::vector<std::string> CompiledSignatures::Faults() const {
  std::vector<std::string> faults;
  for (const Row& row : rows_) {
    const std::string name =
        std::string(row.signature->label) + " \"" + std::string(row.signature->phrases[0]) + "\"";
    for (const std::string_view phrase : row.signature->phrases)
      if (!phrase.empty() && phrase.size() < LiteralFilter::kShortest)
        faults.push_back(name + ": too short: " + std::string(phrase));
    if (row.signature->phrases[0].empty()) faults.push_back(name + ": no phrase");
    for (const BoundedPattern* pattern : {row.pattern.get(), row.veto.get()})
      if (pattern != nullptr && !pattern->ok()) faults.push_back(name + ": " + pattern->error());
  }
  return faults;
}

}  // namespace launch
