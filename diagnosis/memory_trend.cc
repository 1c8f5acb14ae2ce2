#include "diagnosis/memory_trend.h"

#include <algorithm>
#include <array>

namespace launch {
namespace {

// Of the device: growth below it is noise of allocators and libraries.
constexpr double kLeastInAll = 0.03;
constexpr double kLeastOfThird = 0.01;
// The later growth against the earlier: a start that levels off, or one large step, is no trend.
constexpr double kSlowing = 0.5;
constexpr double kQuickening = 2.0;
constexpr Millis kAlwaysNear{60 * 60 * 1000};

}  // namespace

void MemoryTrend::Add(BootTime at, std::uint64_t bytes) {
  ++samples_;
  if (buckets_.empty() || buckets_.back().samples >= per_bucket_) {
    if (buckets_.size() == kMostBuckets) Halve();
    buckets_.push_back({at, at, bytes, bytes, 0});
  }
  Bucket& bucket = buckets_.back();
  bucket.last = at;
  bucket.low = std::min(bucket.low, bytes);
  bucket.high = std::max(bucket.high, bytes);
  ++bucket.samples;
}

void MemoryTrend::Halve() {
  for (std::size_t i = 0; i + 1 < buckets_.size(); i += 2) {
    const Bucket& a = buckets_[i];
    const Bucket& b = buckets_[i + 1];
    buckets_[i / 2] = {a.first, b.last, std::min(a.low, b.low), std::max(a.high, b.high),
                       a.samples + b.samples};
  }
  buckets_.resize(buckets_.size() / 2);
  per_bucket_ *= 2;
}

std::optional<MemoryTrend::Forecast> MemoryTrend::Foresee(std::uint64_t total) const {
  if (samples_ < kFewest || total == 0) return std::nullopt;
  const BootTime begin = buckets_.front().first;
  const Millis seen = buckets_.back().last - begin;
  if (seen <= Millis{0}) return std::nullopt;
  struct Third {
    double low = -1;
    double high = 0;
  };
  std::array<Third, 3> thirds;
  for (const Bucket& bucket : buckets_) {
    const auto which =
        std::clamp<std::int64_t>(3 * (bucket.first - begin).count() / seen.count(), 0, 2);
    Third& third = thirds[static_cast<std::size_t>(which)];
    const auto low = static_cast<double>(bucket.low);
    third.low = third.low < 0 ? low : std::min(third.low, low);
    third.high = std::max(third.high, static_cast<double>(bucket.high));
  }
  const auto size = static_cast<double>(total);
  const double early = thirds[1].high - thirds[0].high;
  const double late = thirds[2].high - thirds[1].high;
  if (early < kLeastOfThird * size || late < kLeastOfThird * size) return std::nullopt;
  if (early + late < kLeastInAll * size) return std::nullopt;
  if (late < kSlowing * early || late > kQuickening * early) return std::nullopt;
  if (thirds[2].low < thirds[0].high) return std::nullopt;  // it was given back
  const double seconds = 2.0 / 3.0 * static_cast<double>(seen.count()) / 1000;
  Forecast forecast;
  forecast.bytes_per_second = (early + late) / seconds;
  const double room = std::max(0.0, size - static_cast<double>(buckets_.back().high));
  const double left_ms = 1000 * room / forecast.bytes_per_second;
  if (left_ms > static_cast<double>(std::max(kAlwaysNear, 2 * seen).count())) return std::nullopt;
  forecast.left = Millis{static_cast<std::int64_t>(left_ms)};
  return forecast;
}

}  // namespace launch
