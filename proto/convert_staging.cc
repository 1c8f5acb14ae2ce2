// What a node found while staging, to and from the wire.
#include <cmath>

#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/observed.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

pb::CheckpointFound ToProto(const CheckpointFound& v) {
  pb::CheckpointFound m;
  m.set_path(observed::Path(v.path));
  m.set_step(std::max<std::int64_t>(v.step, -1));
  m.set_format(observed::Word(v.format));
  m.set_complete(v.complete);
  m.set_why(Utf8(v.why));
  m.set_modified_ms(observed::Ms(ToMs(v.modified)));
  return m;
}
Result<CheckpointFound> FromProto(const pb::CheckpointFound& m) {
  Edge e;
  CheckpointFound v;
  v.path = e.AbsolutePath("path", m.path());
  v.step = e.Int64("step", m.step(), -1);
  v.format = e.MaybeWord("format", m.format());
  v.complete = m.complete();
  v.why = e.Text("why", m.why());
  v.modified = e.Wall("modified_ms", m.modified_ms());
  return e.Done(std::move(v));
}

pb::Reachability ToProto(const Reachability& v) {
  pb::Reachability m;
  m.set_address(observed::Word(v.address));
  m.set_ok(v.ok);
  m.set_interface(observed::Word(v.interface));
  m.set_why(Utf8(v.why));
  return m;
}
Result<Reachability> FromProto(const pb::Reachability& m) {
  Edge e;
  Reachability v;
  v.address = e.Word("address", m.address());
  v.ok = m.ok();
  v.interface = e.MaybeWord("interface", m.interface());
  v.why = e.Text("why", m.why());
  return e.Done(std::move(v));
}

pb::PathFact ToProto(const PathFact& v) {
  pb::PathFact m;
  m.set_what(observed::Word(v.what));
  m.set_path(observed::Path(v.path));
  m.set_ok(v.ok);
  m.set_why(Utf8(v.why));
  m.set_inode(v.inode);
  return m;
}
Result<PathFact> FromProto(const pb::PathFact& m) {
  Edge e;
  PathFact v;
  v.what = e.Word("what", m.what());
  v.path = e.Path("path", m.path());
  v.ok = m.ok();
  v.why = e.Text("why", m.why());
  v.inode = m.inode();
  return e.Done(std::move(v));
}

pb::DiskFact ToProto(const DiskFact& v) {
  pb::DiskFact m;
  m.set_what(observed::Word(v.what));
  m.set_path(observed::Path(v.path));
  m.set_total_bytes(v.total_bytes);
  m.set_free_bytes(v.free_bytes);
  if (v.free_inodes) m.set_free_inodes(*v.free_inodes);
  return m;
}
Result<DiskFact> FromProto(const pb::DiskFact& m) {
  Edge e;
  DiskFact v;
  v.what = e.Word("what", m.what());
  v.path = e.Path("path", m.path());
  v.total_bytes = m.total_bytes();
  v.free_bytes = m.free_bytes();
  if (m.has_free_inodes()) v.free_inodes = m.free_inodes();
  return e.Done(std::move(v));
}

pb::PeerFact ToProto(const PeerFact& v) {
  pb::PeerFact m;
  m.set_place(observed::Int(v.place, 0, edge::kMaxRanks - 1));
  m.set_address(observed::Word(v.address));
  m.set_ok(v.ok);
  m.set_why(Utf8(v.why));
  if (v.mbit && std::isfinite(*v.mbit)) m.set_mbit(*v.mbit);
  if (v.latency_us && std::isfinite(*v.latency_us)) m.set_latency_us(*v.latency_us);
  return m;
}
Result<PeerFact> FromProto(const pb::PeerFact& m) {
  Edge e;
  PeerFact v;
  v.place = e.RankOf("place", m.place());
  v.address = e.MaybeWord("address", m.address());
  v.ok = m.ok();
  v.why = e.Text("why", m.why());
  if (m.has_mbit()) v.mbit = e.Number("mbit", m.mbit());
  if (m.has_latency_us()) v.latency_us = e.Number("latency_us", m.latency_us());
  return e.Done(std::move(v));
}

pb::NcclFacts ToProto(const NcclFacts& v) {
  pb::NcclFacts m;
  m.set_tested(v.tested);
  m.set_ok(v.ok);
  m.set_why(Utf8(v.why));
  m.set_version(observed::Word(v.version));
  m.set_transport(observed::Word(v.transport));
  if (v.us && std::isfinite(*v.us)) m.set_us(*v.us);
  if (v.mbit && std::isfinite(*v.mbit)) m.set_mbit(*v.mbit);
  return m;
}
Result<NcclFacts> FromProto(const pb::NcclFacts& m) {
  Edge e;
  NcclFacts v;
  v.tested = m.tested();
  v.ok = m.ok();
  v.why = e.Text("why", m.why());
  v.version = e.MaybeWord("version", m.version());
  v.transport = e.MaybeWord("transport", m.transport());
  if (m.has_us()) v.us = e.Number("us", m.us());
  if (m.has_mbit()) v.mbit = e.Number("mbit", m.mbit());
  return e.Done(std::move(v));
}

pb::NetworkFacts ToProto(const NetworkFacts& v) {
  pb::NetworkFacts m;
  m.set_backend(observed::Word(v.backend));
  m.set_ok(v.ok);
  m.set_why(Utf8(v.why));
  if (v.allreduce_us && std::isfinite(*v.allreduce_us)) m.set_allreduce_us(*v.allreduce_us);
  if (v.allreduce_mbit && std::isfinite(*v.allreduce_mbit)) {
    m.set_allreduce_mbit(*v.allreduce_mbit);
  }
  observed::Each(v.peers, edge::kMaxItems,
                 [&](const PeerFact& peer) { *m.add_peers() = ToProto(peer); });
  if (v.nccl) *m.mutable_nccl() = ToProto(*v.nccl);
  return m;
}
Result<NetworkFacts> FromProto(const pb::NetworkFacts& m) {
  Edge e;
  NetworkFacts v;
  v.backend = e.MaybeWord("backend", m.backend());
  v.ok = m.ok();
  v.why = e.Text("why", m.why());
  if (m.has_allreduce_us()) v.allreduce_us = e.Number("allreduce_us", m.allreduce_us());
  if (m.has_allreduce_mbit()) v.allreduce_mbit = e.Number("allreduce_mbit", m.allreduce_mbit());
  v.peers = e.Values("peers", m.peers(), edge::kMaxItems);
  if (m.has_nccl()) v.nccl = e.Value("nccl", m.nccl());
  return e.Done(std::move(v));
}

pb::StagingFacts ToProto(const StagingFacts& v) {
  pb::StagingFacts m;
  observed::Each(v.paths, 256, [&](const PathFact& fact) { *m.add_paths() = ToProto(fact); });
  if (v.runtime) *m.mutable_runtime() = ToProto(*v.runtime);
  observed::Each(v.reach, 256, [&](const Reachability& reach) { *m.add_reach() = ToProto(reach); });
  observed::Each(v.checkpoints, edge::kMaxItems, [&](const CheckpointFound& found) {
    if (found.path.starts_with('/')) *m.add_checkpoints() = ToProto(found);
  });
  if (v.setup_exit) m.set_setup_exit(observed::Int(*v.setup_exit, 0, 255));
  const std::size_t cut = v.setup_tail.size() - std::min(v.setup_tail.size(), edge::kMaxText);
  m.set_setup_tail(v.setup_tail.substr(cut));  // a tail: the newest part counts
  observed::Each(v.disks, 64, [&](const DiskFact& disk) { *m.add_disks() = ToProto(disk); });
  if (v.wall) m.set_wall_ms(observed::Ms(ToMs(*v.wall)));
  m.set_from_snapshot(v.from_snapshot);
  if (v.network) *m.mutable_network() = ToProto(*v.network);
  return m;
}
Result<StagingFacts> FromProto(const pb::StagingFacts& m) {
  Edge e;
  StagingFacts v;
  v.paths = e.Values("paths", m.paths(), 256);
  if (m.has_runtime()) v.runtime = e.Value("runtime", m.runtime());
  v.reach = e.Values("reach", m.reach(), 256);
  v.checkpoints = e.Values("checkpoints", m.checkpoints(), edge::kMaxItems);
  if (m.has_setup_exit()) v.setup_exit = e.Int("setup_exit", m.setup_exit(), 0, 255);
  v.setup_tail = e.Text("setup_tail", m.setup_tail());
  v.disks = e.Values("disks", m.disks(), 64);
  if (m.has_wall_ms()) v.wall = e.Wall("wall_ms", m.wall_ms());
  v.from_snapshot = m.from_snapshot();
  if (m.has_network()) v.network = e.Value("network", m.network());
  return e.Done(std::move(v));
}

}  // namespace launch
