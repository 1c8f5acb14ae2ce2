#include "agent/progress/rank_sampler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "common/foreign_file.h"

namespace launch::agent {
namespace {

constexpr std::uint64_t kNewest = 64 * 1024;
constexpr std::size_t kMaxProcessesOfRank = 4096;
constexpr std::size_t kMostChildren = 8 * kMaxProcessesOfRank;  // bytes of the list of them
constexpr std::size_t kMostNumbers = 4096;                      // bytes of statm and stat

struct NewBytes {
  std::string data;
  bool grew = false;
  bool skipped = false;  // older bytes were left out
};

// What was appended since the last call, but never more than the newest 64 KiB. From its start when
// it is shorter than before: the job has emptied it.
NewBytes ReadNew(const std::string& path, std::uint64_t& offset) {
  NewBytes result;
  // The rank's user may have put anything there.
  const auto file = OpenRegular(path, Links::kRefuse);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return result;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size == offset) return result;
  if (size < offset) {
    result.skipped = true;
    offset = 0;
  }
  result.grew = true;
  if (size - offset > kNewest) {
    result.skipped = true;
    offset = size - kNewest;
  }
  result.data = ReadRange(file->get(), offset, size - offset);
  offset += result.data.size();
  return result;
}

// Age of the newest output in a directory that this agent has not watched before.
Millis AgeOf(const std::string& path) {
  struct stat info {};
  struct timespec now {};
  if (::stat(path.c_str(), &info) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0)
    return Millis{0};
  const std::int64_t age =
      (now.tv_sec - info.st_mtim.tv_sec) * 1000 + (now.tv_nsec - info.st_mtim.tv_nsec) / 1'000'000;
  return Millis{std::max<std::int64_t>(age, 0)};
}

std::vector<std::int64_t> ChildrenOf(const std::string& proc_root, std::int64_t pid) {
  std::vector<std::int64_t> children;
  const std::string id = std::to_string(pid);
  std::istringstream file(
      ReadHead(proc_root + "/" + id + "/task/" + id + "/children", kMostChildren));
  for (std::int64_t child = 0; file >> child;) children.push_back(child);
  return children;
}

}  // namespace

namespace {

// Fields 14 and 15 of /proc/PID/stat, behind the name in parentheses.
std::uint64_t CpuMs(const std::string& proc_root, std::int64_t pid) {
  const std::string text = ReadHead(proc_root + "/" + std::to_string(pid) + "/stat", kMostNumbers);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < 14 && fields >> skipped; ++field) {
  }
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  if (!(fields >> user >> system)) return 0;
  const auto ticks = static_cast<std::uint64_t>(std::max(::sysconf(_SC_CLK_TCK), 1L));
  return (user + system) * 1000 / ticks;
}

}  // namespace

TreeUse UseOfTree(const std::string& proc_root, std::int64_t pid) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::int64_t> tree{pid};
  std::uint64_t own = 0;
  std::uint64_t cpu_ms = 0;
  std::uint64_t shared_most = 0;
  for (std::size_t i = 0; i < tree.size() && i < kMaxProcessesOfRank; ++i) {
    std::istringstream file(
        ReadHead(proc_root + "/" + std::to_string(tree[i]) + "/statm", kMostNumbers));
    std::uint64_t size = 0;
    std::uint64_t resident = 0;
    std::uint64_t shared = 0;
    if (!(file >> size >> resident >> shared)) continue;
    cpu_ms += CpuMs(proc_root, tree[i]);
    own += resident - std::min(shared, resident);
    shared_most = std::max(shared_most, shared);
    const std::vector<std::int64_t> children = ChildrenOf(proc_root, tree[i]);
    tree.insert(tree.end(), children.begin(), children.end());
  }
  return {.rss_bytes = (own + shared_most) * page, .cpu_ms = cpu_ms, .pids = std::move(tree)};
}

RankSampler::Watched RankSampler::Begin(const RunningRank& rank, BootTime now) const {
  auto parser = ProgressParser::Create(rank.progress_regex);
  if (!parser) parser = ProgressParser::Create("");
  return Watched{.parser = std::move(*parser), .last_output = now - AgeOf(rank.directory + "/out")};
}

RankSample RankSampler::Look(const RunningRank& rank, Watched& watched, BootTime now) {
  for (auto* stream : {&watched.out, &watched.err}) {
    const bool out = stream == &watched.out;
    const NewBytes bytes = ReadNew(rank.directory + (out ? "/out" : "/err"), stream->offset);
    if (bytes.skipped) watched.parser.SkipLog();
    if (bytes.grew) watched.parser.FeedLog(bytes.data, now);
    if (bytes.grew && !watched.fresh) watched.last_output = now;
  }
  const NewBytes said = ReadNew((rank.own.empty() ? rank.directory : rank.own) + "/progress.jsonl",
                                watched.progress.offset);
  if (said.grew) watched.parser.FeedFile(said.data, now);
  watched.fresh = false;
  const Progress progress = watched.parser.Now();
  const TreeUse use = rank.pid > 0 ? UseOfTree(proc_root_, rank.pid) : TreeUse{};
  processes_.insert(use.pids.begin(), use.pids.end());
  const std::optional<ProgressParser::Memory>& memory = watched.parser.memory();
  return {.key = rank.key,
          .rank = rank.rank,
          .step = progress.step,
          .steps = progress.steps,
          .seconds_per_step = progress.seconds_per_step,
          .eta_s = progress.eta_s,
          .rss_bytes = use.rss_bytes,
          .output_age_ms = (now - watched.last_output).count(),
          .cpu_ms = use.cpu_ms,
          .allocated_bytes = memory ? std::optional(memory->allocated) : std::nullopt,
          .reserved_bytes = memory ? std::optional(memory->reserved) : std::nullopt,
          .memory_age_ms = memory ? (now - memory->at).count() : 0};
}

std::vector<RankSample> RankSampler::Sample(const std::vector<RunningRank>& running,
                                            const std::vector<RunningRank>& ended, BootTime now) {
  std::map<std::pair<Key, Rank>, Watched> still;
  processes_.clear();
  std::vector<RankSample> samples;
  const auto look = [&](const RunningRank& rank) {
    const auto id = std::pair(rank.key, rank.rank);
    auto node = watched_.extract(id);
    Watched watched = node.empty() ? Begin(rank, now) : std::move(node.mapped());
    samples.push_back(Look(rank, watched, now));
    return std::pair(id, std::move(watched));
  };
  for (RunningRank rank : ended) {
    rank.pid = 0;  // another process may have the number by now
    (void)look(rank);
  }
  for (const RunningRank& rank : running) still.insert(look(rank));
  watched_ = std::move(still);
  return samples;
}

}  // namespace launch::agent
