#include "agent/runner/cgroup_note.h"

#include "agent/runner/record_file.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxBytes = 64 << 10;

std::string PathIn(const std::string& attempt_dir) { return attempt_dir + "/cgroups"; }

}  // namespace

Result<void> NoteCgroups(FileSystem& files, const std::string& attempt_dir,
                         const CgroupHost& host) {
  RecordWriter out;
  out.Put(static_cast<std::uint64_t>(host.level));
  out.Put(host.kill_root);
  out.Put(std::uint64_t{host.kill_v2});
  out.Put(host.memory_root);
  out.Put(std::uint64_t{host.memory_v2});
  return files.Write(PathIn(attempt_dir), SealBody(out.bytes()));
}

std::optional<CgroupHost> NotedCgroups(FileSystem& files, const std::string& attempt_dir) {
  const auto bytes = files.Read(PathIn(attempt_dir), kMaxBytes);
  const auto body = bytes ? OpenBody(*bytes) : Result<std::string>(Unexpected(bytes.error()));
  if (!body) return std::nullopt;
  RecordReader in(*body);
  CgroupHost host;
  const std::uint64_t level = in.TakeNumber();
  host.level = static_cast<Containment>(level);
  host.kill_root = in.TakeText();
  host.kill_v2 = in.TakeNumber() != 0;
  host.memory_root = in.TakeText();
  host.memory_v2 = in.TakeNumber() != 0;
  const bool known = level <= static_cast<std::uint64_t>(Containment::kTree);
  if (!in.ok() || !in.AtEnd() || !known) return std::nullopt;
  return host;
}

}  // namespace launch::agent
