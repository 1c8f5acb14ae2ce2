// The parts of GPUs and adapters that placement does not need.
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/observed.h"

namespace launch {

using edge::Edge;

namespace {

constexpr int kMostGeneration = 10'000;
constexpr int kMostLanes = 1'000;
constexpr int kMostMhz = 1'000'000;
constexpr int kMostMbit = 1'000'000'000;
constexpr int kMostRows = 1'000'000'000;

}  // namespace

LAUNCH_CONVERT_ENUM(FabricState, kFailed)

pb::PcieLink ToProto(const PcieLink& v) {
  pb::PcieLink m;
  if (v.generation) m.set_generation(observed::Int(*v.generation, 0, kMostGeneration));
  if (v.max_generation) m.set_max_generation(observed::Int(*v.max_generation, 0, kMostGeneration));
  if (v.width) m.set_width(observed::Int(*v.width, 0, kMostLanes));
  if (v.max_width) m.set_max_width(observed::Int(*v.max_width, 0, kMostLanes));
  return m;
}
Result<PcieLink> FromProto(const pb::PcieLink& m) {
  Edge e;
  PcieLink v;
  if (m.has_generation()) v.generation = e.Int("generation", m.generation(), 0, kMostGeneration);
  if (m.has_max_generation())
    v.max_generation = e.Int("max_generation", m.max_generation(), 0, kMostGeneration);
  if (m.has_width()) v.width = e.Int("width", m.width(), 0, kMostLanes);
  if (m.has_max_width()) v.max_width = e.Int("max_width", m.max_width(), 0, kMostLanes);
  return e.Done(v);
}

pb::ClockLimits ToProto(const ClockLimits& v) {
  pb::ClockLimits m;
  if (v.graphics_max) m.set_graphics_max(observed::Int(*v.graphics_max, 0, kMostMhz));
  if (v.graphics_set) m.set_graphics_set(observed::Int(*v.graphics_set, 0, kMostMhz));
  if (v.memory_max) m.set_memory_max(observed::Int(*v.memory_max, 0, kMostMhz));
  return m;
}
Result<ClockLimits> FromProto(const pb::ClockLimits& m) {
  Edge e;
  ClockLimits v;
  if (m.has_graphics_max()) v.graphics_max = e.Int("graphics_max", m.graphics_max(), 0, kMostMhz);
  if (m.has_graphics_set()) v.graphics_set = e.Int("graphics_set", m.graphics_set(), 0, kMostMhz);
  if (m.has_memory_max()) v.memory_max = e.Int("memory_max", m.memory_max(), 0, kMostMhz);
  return e.Done(v);
}

pb::RemappedRows ToProto(const RemappedRows& v) {
  pb::RemappedRows m;
  m.set_correctable(observed::Int(v.correctable, 0, kMostRows));
  m.set_uncorrectable(observed::Int(v.uncorrectable, 0, kMostRows));
  m.set_pending(v.pending);
  m.set_failed(v.failed);
  return m;
}
Result<RemappedRows> FromProto(const pb::RemappedRows& m) {
  Edge e;
  RemappedRows v;
  v.correctable = e.Int("correctable", m.correctable(), 0, kMostRows);
  v.uncorrectable = e.Int("uncorrectable", m.uncorrectable(), 0, kMostRows);
  v.pending = m.pending();
  v.failed = m.failed();
  return e.Done(v);
}

pb::RdmaPort ToProto(const RdmaPort& v) {
  pb::RdmaPort m;
  m.set_device(observed::Word(v.device));
  m.set_port(observed::Int(v.port, 0, 65'535));
  m.set_layer(observed::Word(v.layer));
  m.set_state(observed::Word(v.state));
  if (v.mbit) m.set_mbit(observed::Int(*v.mbit, 0, kMostMbit));
  m.set_interface(observed::Word(v.interface));
  if (v.numa) m.set_numa(observed::Int(*v.numa, -1, 65'535));
  return m;
}
Result<RdmaPort> FromProto(const pb::RdmaPort& m) {
  Edge e;
  RdmaPort v;
  v.device = e.Word("device", m.device());
  v.port = e.Int("port", m.port(), 0, 65'535);
  v.layer = e.MaybeWord("layer", m.layer());
  v.state = e.MaybeWord("state", m.state());
  if (m.has_mbit()) v.mbit = e.Int("mbit", m.mbit(), 0, kMostMbit);
  v.interface = e.MaybeWord("interface", m.interface());
  if (m.has_numa()) v.numa = e.Int("numa", m.numa(), -1, 65'535);
  return e.Done(std::move(v));
}

}  // namespace launch
