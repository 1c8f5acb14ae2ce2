// The table of signatures itself: whatever a pattern can read, the filter in front lets through.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/text.h"
#include "diagnosis/compiled_signatures.h"
#include "diagnosis/labels.h"
#include "tests/unit/diagnosis/pattern_examples.h"

namespace launch {
namespace {

std::string Filled(std::string text, std::string_view filling) {
  for (std::size_t at = 0; (at = text.find(kAnything, at)) != std::string::npos;)
    text.replace(at, 1, filling);
  return text;
}

// Whether the row reads the example when it stands in a log. A pattern that ignores case is reached
// if a line in some case is.
bool Reaches(const CompiledSignatures& table, std::size_t row, const std::string& example) {
  const Signature& signature = *table.rows()[row].signature;
  const bool any_case = signature.pattern.find("(?i") != std::string_view::npos;
  CompiledSignatures::Match match;
  for (const std::string_view phrase : signature.phrases) {
    if (phrase.empty()) continue;
    const std::string plain = Filled(example, "x");
    const bool stands = any_case ? Lower(plain).find(Lower(phrase)) != std::string::npos
                                 : plain.find(phrase) != std::string::npos;
    if (stands && table.Matches(row, plain, &match)) return true;
    const bool may_stand = example.find(kAnything) != std::string::npos;
    if (may_stand && table.Matches(row, Filled(example, phrase), &match)) return true;
  }
  return false;
}

TEST(Examples, HaveEachAlternativeOfAPattern) {
  const auto texts = [](std::string_view pattern) {
    std::vector<std::string> all;
    for (const PatternExample& example : ExamplesOf(pattern).examples) all.push_back(example.text);
    return all;
  };
  EXPECT_EQ(texts("a(?:b|c)d?|[Ee]f{2}"),
            (std::vector<std::string>{"abd", "ab", "acd", "ac", "Eff", "eff"}));
  EXPECT_EQ(texts(R"(^\(x\)[^\n]*\d{3}$)"), (std::vector<std::string>{"(x)\x01"
                                                                      "777",
                                                                      "(x)777"}));
  const PatternExamples named = ExamplesOf("a(?:b|c)|d");
  EXPECT_EQ(named.alternatives, (std::vector<std::string>{"b", "c", "a(?:b|c)", "d"}));
  EXPECT_EQ(named.examples[1].taken, (std::set<int>{1, 2}));
}

TEST(Table, EachAlternativeOfAPatternIsReachedByItsOwnExample) {
  const CompiledSignatures table;
  std::size_t alternatives = 0;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const Signature& signature = *table.rows()[row].signature;
    if (signature.pattern.empty()) continue;
    const PatternExamples all = ExamplesOf(signature.pattern);
    std::set<int> reached;
    for (const PatternExample& example : all.examples) {
      if (Reaches(table, row, example.text))
        reached.insert(example.taken.begin(), example.taken.end());
    }
    for (std::size_t i = 0; i < all.alternatives.size(); ++i) {
      EXPECT_TRUE(reached.contains(static_cast<int>(i)))
          << signature.label << ": the filter never lets `" << all.alternatives[i]
          << "` through, of " << signature.pattern;
    }
    alternatives += all.alternatives.size();
  }
  EXPECT_GT(alternatives, 800u);
}

TEST(Labels, TheirRemediesNameTheJob) {
  Verdict verdict = VerdictOfLabel("preempted_signal", Confidence::kLikely);
  NameJob(JobId{12}, verdict);
  EXPECT_TRUE(verdict.remedy.starts_with("launch requeue 12 ")) << verdict.remedy;
}

}  // namespace
}  // namespace launch
