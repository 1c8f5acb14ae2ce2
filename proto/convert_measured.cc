// Messages of what runs and probes measured.
#include <utility>

#include "proto/convert_user.h"
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/launch.pb.h"
#include "proto/value.pb.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {
constexpr double kMostSeconds = 1e9;                          // of one step: thirty years
constexpr std::int64_t kMostSamples = std::int64_t{1} << 50;  // of one step, far above any batch
}  // namespace

pb::ProbePoint ToProto(const ProbePoint& v) {
  pb::ProbePoint m;
  m.set_micro(v.micro);
  m.set_accumulate(v.accumulate);
  m.set_gpu(v.gpu);
  m.set_load_bytes(v.load_bytes);
  m.set_peak_bytes(v.peak_bytes);
  m.set_static_bytes(v.static_bytes);
  m.set_step_seconds(v.step_seconds);
  m.set_loader_seconds(v.loader_seconds);
  return m;
}
Result<ProbePoint> FromProto(const pb::ProbePoint& m) {
  constexpr double kMostBytes = 1e18;
  Edge e;
  ProbePoint v;
  v.micro = e.Int64("micro", m.micro(), 1);
  v.accumulate = e.Int64("accumulate", m.accumulate(), 1);
  v.gpu = m.gpu();
  v.load_bytes = e.Number("load_bytes", m.load_bytes());
  v.peak_bytes = e.Number("peak_bytes", m.peak_bytes());
  v.static_bytes = e.Number("static_bytes", m.static_bytes());
  v.step_seconds = e.Number("step_seconds", m.step_seconds());
  v.loader_seconds = e.Number("loader_seconds", m.loader_seconds());
  e.Require(v.peak_bytes > 0 && v.peak_bytes < kMostBytes, "peak_bytes",
            "is no number of bytes above 0");
  e.Require(v.load_bytes >= 0 && v.load_bytes < kMostBytes, "load_bytes", "is no number of bytes");
  e.Require(v.static_bytes >= 0 && v.static_bytes < kMostBytes, "static_bytes",
            "is no number of bytes");
  e.Require(v.step_seconds >= 0 && v.step_seconds < kMostSeconds, "step_seconds",
            "is no time of a step");
  e.Require(v.loader_seconds >= 0 && v.loader_seconds < kMostSeconds, "loader_seconds",
            "is no time of a step");
  return e.Done(std::move(v));
}

pb::MeasuredRun ToProto(const MeasuredRun& v) {
  pb::MeasuredRun m;
  m.set_job(Utf8(v.job));
  m.set_device(Utf8(v.device));
  m.set_ranks(v.ranks);
  if (v.global_batch) m.set_global_batch(*v.global_batch);
  if (v.step_seconds) m.set_step_seconds(*v.step_seconds);
  if (v.seconds) m.set_seconds(*v.seconds);
  if (v.micro) m.set_micro(*v.micro);
  if (v.peak_gib) m.set_peak_gib(*v.peak_gib);
  m.set_architecture(Utf8(v.architecture));
  m.set_framework(Utf8(v.framework));
  m.set_strategy(Utf8(v.strategy));
  if (v.cold_step_seconds) m.set_cold_step_seconds(*v.cold_step_seconds);
  if (v.cold_peak_gib) m.set_cold_peak_gib(*v.cold_peak_gib);
  if (v.cold_fixed_gib) m.set_cold_fixed_gib(*v.cold_fixed_gib);
  m.set_script(Utf8(v.script));
  m.set_precision(Utf8(v.precision));
  m.set_offload(Utf8(v.offload));
  m.set_checkpointing(Utf8(v.checkpointing));
  if (v.probe) *m.mutable_probe() = ToProto(*v.probe);
  return m;
}
Result<MeasuredRun> FromProto(const pb::MeasuredRun& m) {
  Edge e;
  MeasuredRun v;
  v.job = e.Word("job", m.job());
  v.device = e.Word("device", m.device());
  v.ranks = e.Int("ranks", m.ranks(), 1, edge::kMaxRanks);
  if (m.has_global_batch()) v.global_batch = e.Int64("global_batch", m.global_batch(), 1);
  if (m.has_step_seconds()) v.step_seconds = e.Number("step_seconds", m.step_seconds());
  if (m.has_seconds()) v.seconds = e.Number("seconds", m.seconds());
  if (m.has_micro()) v.micro = e.Int64("micro", m.micro(), 1);
  if (m.has_peak_gib()) v.peak_gib = e.Number("peak_gib", m.peak_gib());
  v.architecture = e.MaybeWord("architecture", m.architecture());
  v.framework = e.MaybeWord("framework", m.framework());
  v.strategy = e.MaybeWord("strategy", m.strategy());
  if (m.has_cold_step_seconds()) {
    v.cold_step_seconds = e.Number("cold_step_seconds", m.cold_step_seconds());
  }
  if (m.has_cold_peak_gib()) v.cold_peak_gib = e.Number("cold_peak_gib", m.cold_peak_gib());
  if (m.has_cold_fixed_gib()) v.cold_fixed_gib = e.Number("cold_fixed_gib", m.cold_fixed_gib());
  v.script = e.MaybeWord("script", m.script());
  v.precision = e.MaybeWord("precision", m.precision());
  v.offload = e.MaybeWord("offload", m.offload());
  v.checkpointing = e.MaybeWord("checkpointing", m.checkpointing());
  if (m.has_probe()) v.probe = e.Value("probe", m.probe());
  e.Require(v.global_batch.value_or(1) <= kMostSamples, "global_batch", "is no batch");
  e.Require(v.step_seconds.value_or(1) < kMostSeconds, "step_seconds", "is no time of a step");
  e.Require(v.cold_peak_gib.value_or(1) > 0 && v.cold_fixed_gib.value_or(0) >= 0, "cold_peak_gib",
            "is not above 0");
  e.Require(v.cold_step_seconds.value_or(1) > 0 && v.peak_gib.value_or(1) > 0, "peak_gib",
            "is not above 0");
  e.Require(v.step_seconds.value_or(1) > 0 && v.seconds.value_or(1) > 0, "seconds",
            "are not above 0");
  return e.Done(std::move(v));
}

pb::NoteProbeRequest ToProto(const NoteProbeCall& v) {
  pb::NoteProbeRequest m;
  m.set_job(v.job.value);
  if (v.point) *m.mutable_point() = ToProto(*v.point);
  for (const NetworkFacts& facts : v.network) *m.add_network() = ToProto(facts);
  return m;
}
Result<NoteProbeCall> FromProto(const pb::NoteProbeRequest& m) {
  Edge e;
  NoteProbeCall v;
  v.job = e.Job("job", m.job());
  if (m.has_point()) v.point = e.Value("point", m.point());
  v.network = e.Values("network", m.network(), edge::kMaxNodes);
  e.Require(v.point.has_value() || !v.network.empty(), "point", "is missing");
  return e.Done(std::move(v));
}

}  // namespace launch
