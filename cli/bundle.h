// One archive for a bug report: what a job was, what it did and what its nodes are, without
// secrets.
#pragma once

#include "cli/client.h"
#include "cli/tar_file.h"
#include "common/error.h"
#include "common/redaction.h"
#include "diagnosis/compiled_signatures.h"

namespace launch {

// README, job.json, events.jsonl, nodes.json and attempt-N/rank-R.log: of each log its first MiB
// and its last three, of each attempt at most 64 ranks, the failing ones first. A log that cannot
// be read is replaced by a line that says so.
enum class BundleLogs { kWith, kWithout };
Result<TarEntries> MakeBundle(Client& client, const JobView& job, const Redaction& redaction,
                              BundleLogs logs);

// The verdict that a bundle has for its newest attempt or, where it has none, one judged from the
// exit codes and logs in the bundle. kInvalidArgument: it is no bundle.
Result<Verdict> VerdictOfBundle(const TarEntries& bundle, const CompiledSignatures& signatures);

}  // namespace launch
