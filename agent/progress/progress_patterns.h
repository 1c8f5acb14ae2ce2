// Patterns of what trainers print about their progress; RE2, because logs are untrusted.
#pragma once

#include <re2/re2.h>

#include "common/progress_pattern.h"

namespace launch::agent {

// Compiled once for all ranks and kept: what each remembers of the texts is bounded.
struct ProgressPatterns {
  static re2::RE2::Options Options() {
    re2::RE2::Options options = LogPatternOptions();
    options.set_max_mem(1 << 20);
    return options;
  }
  // "20/120 [1:30:00<7:30:00, 270.00s/it"
  const re2::RE2 bar{
      R"((\d{1,15})/(\d{1,15}) \[([\d:]+)<([\d:]+|\?),\s*(\?|[\d.]+)\s*([A-Za-z]*)/([A-Za-z]+))",
      Options()};
  // "Epoch [1/3], Step [100/600]": the tutorials' line.
  const re2::RE2 epoch_line{
      R"((?i)\bepochs?[\s:=\[(#]*(\d{1,9})\s*(?:/|of)\s*(\d{1,9}).*?\b(?:steps?|iters?|iterations?|batch|batches)[\s:=\[(#]*(\d{1,15})\s*(?:/|of)\s*(\d{1,15}))",
      Options()};
  // "step 90/120", "iteration   4/   10", "Step: 90 of 120"
  const re2::RE2 step_of{
      R"((?i)\b(?:global_?)?(?:steps?|iters?|iterations?)['"]?[\s:=\[(#]*(\d{1,15})\s*(?:/|of)\s*(\d{1,15}))",
      Options()};
  // "90/120 loss 1.23"
  const re2::RE2 loss_line{R"((?i)^[\s\[(]*(\d{1,15})\s*/\s*(\d{1,15})\b.*\bloss\b)", Options()};
  // "step: 10  loss: 4.3", "iter 100: loss 3.2", "step=10, skipped=0": no total
  const re2::RE2 step_only{
      R"((?i)\b(?:steps?|iter|iteration)\s*[:=#]?\s*(\d{1,15})\b(?:[\s:,|]+.*\b(?:loss|skipped|lr)\b))",
      Options()};
  // Trainers' dictionaries: {'loss': 0.5, 'step': '20', 'max_steps': 120}
  const re2::RE2 dict_step{
      R"(['"](?:global_step|current_step|current_steps|step)['"]\s*:\s*['"]?(\d{1,15}))",
      Options()};
  const re2::RE2 dict_total{
      R"(['"](?:max_steps|total_steps|num_steps|steps)['"]\s*:\s*['"]?(\d{1,15}))", Options()};
  // "270 ms/step", "elapsed time per iteration (ms): 270.0", "time 270.00ms"
  const re2::RE2 step_time{
      R"((?i)(?:([\d.]+)\s*(ms|s)\s*/\s*(?:it|iter|iteration|step)\b)|(?:per iteration \((ms|s)\):\s*([\d.]+))|(?:\btime[\s:=]+([\d.]+)\s*(ms|s)\b))",
      Options()};
  // Words of bars and lines that are not training.
  const re2::RE2 aside{
      R"((?i)\b(?:eval|evaluat\w*|valid\w*|val|test\w*|sanity\w*|predict\w*|inference|generat\w*|download\w*|upload\w*|tokeni[sz]\w*|map|mapping|filter\w*|grouping|packing|preprocess\w*|processing|loading|saving|writing|reading|fetch\w*|extract\w*|convert\w*|shards?|cach\w*|creating|building)\b)",
      Options()};
  // What loggers put first: "[test-job] [rank 0] "
  const re2::RE2 brackets{R"(^(?:\s*\[[^\]]*\])+)", Options()};
  const re2::RE2 bar_epoch{R"((?i)\bepochs?[\s:=\[(#]*(\d{1,9})\s*(?:/|of)\s*(\d{1,9}))",
                           Options()};
  const re2::RE2 epoch_word{R"((?i)\bepochs?\b)", Options()};
  const re2::RE2 numbered_epoch{R"((?i)\bepochs?\W*\d)", Options()};
};

}  // namespace launch::agent
