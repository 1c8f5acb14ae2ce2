// The table of what a log can say: one row per message, its label and how sure it makes us.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/diagnosis.h"

namespace launch {

// What kind of evidence a row is. Lower outranks higher: a root cause beats its symptoms whatever
// their order in the log.
enum class Tier : std::uint8_t {
  kAuthority,  // a scheduler's or the kernel's own statement about our processes
  kHardware,   // a GPU's or link's fault
  kRoot,       // a specific cause
  kProgram,    // an exception of the user's program
  kSymptom,    // a rank that notices that another one is gone or late
  kWrapper,    // says that something failed, not what
  kNote,       // worth telling where nothing else is there; never makes a run bad
};

// How the line is read once the pattern matched.
enum class Reading : std::uint8_t {
  kLabel,      // `label` it is
  kCompiler,   // a compiler's own line: of an extension where one was being built
  kOom,        // a memory request that a GPU refused: cuda_oom reads the numbers
  kXid,        // capture 1 is an Xid: xid gives the label
  kException,  // capture 1 is the class of a Python exception, capture 2 its message
  kTraceback,  // the exception stands some lines below
  kRankEnd,    // how a rank ended: rank_end reads it
  kBusy,       // a rank was doing long work of its own: tells slow from dead
  kSmi,        // a table of nvidia-smi begins: smi_table reads it
  kNan,        // the loss is not a number: counts only when it stays so
  kHealed,     // the server of capture 1 answers again
  kRetry,      // try `capture 1` of `capture 2`: only the last one may be what the run ended with
  kStep,       // training goes on: what was told before did not end it
  kRestart,    // the run begins again: what was told before may be of an earlier attempt
  kGpuSeen,    // the program said that it sees a GPU
  kDone,       // training came to its end: what follows is cleaning up
};

inline constexpr int kMaxPhrases = 12;

struct Signature {
  std::string_view label;
  Tier tier = Tier::kRoot;
  Confidence confidence = Confidence::kLikely;
  // Among rows of one tier the larger weight wins, then the earlier line.
  int weight = 50;
  // Texts of at least 7 bytes, of which at least one stands in a matching line byte for byte: every
  // alternative of the pattern holds one of them.
  std::string_view phrases[kMaxPhrases] = {};
  // RE2; empty: the phrase is enough. Matched against the cleaned line, and where that fails also
  // against the line with the following ones joined, because terminals and schedulers wrap lines.
  std::string_view pattern = {};
  // RE2; a line that matches it is not this.
  std::string_view veto = {};
  // Instead of the label's cause; \1 and \2 are the captures of the pattern.
  std::string_view cause = {};
  Reading reading = Reading::kLabel;
  // Action and remedy instead of the label's own; empty: the label's.
  std::string_view action = {};
  std::string_view remedy = {};
};

std::span<const Signature> MemorySignatures();
std::span<const Signature> EnvironmentSignatures();
std::span<const Signature> CommunicationSignatures();
std::span<const Signature> ProgramSignatures();
std::span<const Signature> StorageSignatures();
std::span<const Signature> HardwareSignatures();
std::span<const Signature> LauncherSignatures();
std::span<const Signature> ShellSignatures();

}  // namespace launch
