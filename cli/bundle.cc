#include "cli/bundle.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/render_json.h"
#include "common/json_number.h"
#include "common/version.h"
#include "diagnosis/exit_evidence.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

using Document = nlohmann::json;

constexpr std::size_t kHead = 1 << 20;
constexpr std::size_t kTail = 3 << 20;
constexpr std::size_t kRanks = 64;
constexpr std::size_t kAllLogs = 256 << 20;  // of one bundle: it is sent by mail
// Of a log beyond it only the end is fetched.
constexpr std::uint64_t kWholeLog = 64 << 20;
constexpr std::uint32_t kEndLines = 20'000;
constexpr Millis kOfOneLog{30'000};
constexpr Millis kOfEvents{30'000};
constexpr char kJobFile[] = "job.json";

// The beginning and the end of a log of any length.
class HeadAndTail {
 public:
  void Add(std::string_view piece) {
    const std::size_t room = kHead - std::min(kHead, head_.size());
    head_ += piece.substr(0, room);
    tail_ += piece.substr(std::min(room, piece.size()));
    if (tail_.size() <= 2 * kTail) return;
    dropped_ += tail_.size() - kTail;
    tail_.erase(0, tail_.size() - kTail);
  }
  std::string Text() const {
    if (dropped_ == 0) return head_ + tail_;
    return head_ + "\n[launch bundle: " + std::to_string(dropped_) + " bytes left out]\n" + tail_;
  }

 private:
  std::string head_;
  std::string tail_;
  std::size_t dropped_ = 0;
};

std::string Readme(const JobView& job) {
  return "launch " + std::string(Version()) + ", job " + std::to_string(job.id.value) +
         "\n\njob.json          status with attempts, verdicts, plan and environment\n"
         "events.jsonl      what happened, one line each\n"
         "nodes.json        the nodes it ran on\n"
         "attempt-N/        output of its ranks\n\n"
         "Values of variables that look like secrets, tokens and passwords in URLs are replaced "
         "by\n"
         "[removed]#123456, the same secret by the same digits, which mean nothing outside of this "
         "bundle. Look through it before you send it. `launch diagnose THIS` reads it.\n";
}

std::string Events(Client& client, const JobView& job) {
  std::string lines;
  WatchCall call;
  call.jobs = {job.id};
  const auto end = client.Watch(call, kOfEvents, [&](const EventView& event) {
    lines += EventLine(event) + "\n";
    return true;
  });
  if (!end) lines += "# " + end.error().message + "\n";
  return lines;
}

Result<std::string> Nodes(Client& client, const JobView& job) {
  std::set<NodeId> used;
  for (const AttemptView& attempt : job.attempts) {
    used.insert(attempt.nodes.begin(), attempt.nodes.end());
  }
  LAUNCH_ASSIGN_OR_RETURN(std::vector<NodeView> nodes, client.Nodes());
  std::erase_if(nodes, [&](const NodeView& one) { return !used.contains(one.inventory.node); });
  return NodesJson(nodes);
}

std::string LogName(const AttemptView& attempt, Rank rank) {
  return "attempt-" + std::to_string(attempt.attempt.value) + "/rank-" + std::to_string(rank) +
         ".log";
}

std::uint64_t BytesOf(const AttemptView& attempt, Rank rank) {
  for (const RankView& view : attempt.ranks)
    if (view.rank == rank && view.exit) return view.exit->log_end;
  return 0;  // it runs, and nobody knows
}

std::string Log(Client& client, const JobView& job, const AttemptView& attempt, Rank rank) {
  LogsCall call;
  call.job = job.id;
  call.attempt = attempt.attempt;
  call.ranks = {rank};
  if (BytesOf(attempt, rank) > kWholeLog) call.last_lines = kEndLines;
  HeadAndTail log;
  const auto end = client.Logs(call, kOfOneLog, [&](const LogPiece& piece) {
    if (const auto* chunk = std::get_if<LogChunk>(&piece)) log.Add(chunk->data);
    return true;
  });
  if (end) return log.Text();
  return log.Text() + "\n[launch bundle: not read to its end: " + end.error().message + "]\n";
}

// Failing ranks in front, then by number.
std::vector<Rank> RanksOf(const AttemptView& attempt) {
  std::vector<std::pair<bool, Rank>> order;
  for (const RankView& rank : attempt.ranks) {
    order.emplace_back(!rank.exit || Succeeded(*rank.exit), rank.rank);
  }
  std::sort(order.begin(), order.end());
  std::vector<Rank> ranks;
  for (const auto& [well, rank] : order) ranks.push_back(rank);
  if (ranks.size() > kRanks) ranks.resize(kRanks);
  return ranks;
}

// ---- reading ----

template <class T>
std::optional<T> Maybe(const Document& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// Like Document::value, which casts any number.
int Whole(const Document& json, const char* key, int low, int high, int otherwise) {
  return static_cast<int>(WholeNumberIn(json, key, low, high).value_or(otherwise));
}

constexpr int kLastRank = 65'535;

Verdict ReadVerdict(const Document& json) {
  Verdict verdict;
  verdict.label = json.value("label", "unknown");
  verdict.confidence =
      ParseConfidence(json.value("confidence", "unknown")).value_or(Confidence::kUnknown);
  if (const auto rank = WholeNumberIn(json, "rank", 0, kLastRank))
    verdict.rank = static_cast<Rank>(*rank);
  if (const auto node = Maybe<std::string>(json, "node")) verdict.node = NodeId{*node};
  verdict.evidence = json.value("evidence", std::vector<std::string>{});
  verdict.cause = json.value("cause", "");
  verdict.remedy = json.value("remedy", "");
  verdict.action = json.value("action", "");
  verdict.numbers = json.value("numbers", std::map<std::string, double>{});
  verdict.changes = json.value("changes", std::vector<std::string>{});
  return verdict;
}

const std::string* Find(const TarEntries& bundle, const std::string& name) {
  const auto found = std::find_if(bundle.begin(), bundle.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == bundle.end() ? nullptr : &found->second;
}

Verdict JudgeAttempt(const TarEntries& bundle, const Document& attempt,
                     const CompiledSignatures& signatures) {
  std::vector<Verdict> verdicts;
  for (const Document& rank : attempt.at("ranks")) {
    const Document& exit = rank.at("exit");
    if (exit.is_null() || Whole(exit, "code", 0, 255, 0) == 0) continue;
    FailedRank failed;
    failed.node = NodeId{rank.value("node", "")};
    failed.exit.rank = Whole(rank, "rank", 0, kLastRank, 0);
    failed.exit.cause = Exited{Whole(exit, "code", 0, 255, 1)};
    LogScanner scanner(signatures);
    const std::string name = "attempt-" +
                             std::to_string(Whole(attempt, "attempt", 1, INT32_MAX, 1)) + "/rank-" +
                             std::to_string(failed.exit.rank) + ".log";
    if (const std::string* log = Find(bundle, name)) scanner.Feed(*log);
    verdicts.push_back(JudgeRank(scanner.Finish(), failed, signatures));
  }
  if (!verdicts.empty()) return ChooseVerdict(verdicts);
  NodeEvidence well;
  well.exit_code = 0;
  return Diagnose("", well, signatures);
}

}  // namespace

Result<TarEntries> MakeBundle(Client& client, const JobView& job, const Redaction& redaction,
                              BundleLogs logs) {
  TarEntries bundle;
  bundle.emplace_back("README", Readme(job));
  bundle.emplace_back(kJobFile, redaction.Clean(JobJson(redaction.Clean(job))) + "\n");
  bundle.emplace_back("events.jsonl", redaction.Clean(Events(client, job)));
  LAUNCH_ASSIGN_OR_RETURN(const std::string nodes, Nodes(client, job));
  bundle.emplace_back("nodes.json", redaction.Clean(nodes) + "\n");
  if (logs == BundleLogs::kWithout) {
    bundle.emplace_back("left-out", "all logs: a rank may have printed the secrets of the job\n");
    return bundle;
  }
  // The newest attempt first, and of each the ranks that failed: what is left out tells least.
  std::size_t room = kAllLogs;
  std::string left_out;
  for (auto attempt = job.attempts.rbegin(); attempt != job.attempts.rend(); ++attempt) {
    for (const Rank rank : RanksOf(*attempt)) {
      if (room == 0) {
        left_out += LogName(*attempt, rank) + "\n";
        continue;
      }
      std::string text = redaction.Clean(Log(client, job, *attempt, rank));
      room -= std::min(room, text.size());
      bundle.emplace_back(LogName(*attempt, rank), std::move(text));
    }
  }
  if (!left_out.empty()) bundle.emplace_back("left-out", "no room for these logs:\n" + left_out);
  return bundle;
}

// Ours has a depth of about ten; a parser takes memory for each level.
bool IsDeep(std::string_view json) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepest) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

Result<Verdict> VerdictOfBundle(const TarEntries& bundle, const CompiledSignatures& signatures) {
  const std::string* job = Find(bundle, kJobFile);
  const bool readable = job != nullptr && !IsDeep(*job);
  const Document document = readable ? Document::parse(*job, nullptr, false) : Document();
  const auto bad = [] {
    return Fail(ErrorCode::kInvalidArgument, "the archive is not one of `launch bundle`",
                "give the log itself: launch diagnose FILE");
  };
  if (!document.is_object()) return bad();
  try {
    const Document& attempts = document.at("attempts");
    if (attempts.empty()) {
      return Fail(ErrorCode::kFailedPrecondition, "the job of this bundle never started");
    }
    const Document& newest = attempts.back();
    if (const Document& verdict = newest.at("verdict"); !verdict.is_null())
      return ReadVerdict(verdict);
    return JudgeAttempt(bundle, newest, signatures);
  } catch (const Document::exception&) {
    return bad();
  }
}

}  // namespace launch
