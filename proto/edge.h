// The vocabulary of FromProto: reads fields one by one, keeps the first problem with its path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/ids.h"
#include "proto/convert_value.h"

namespace launch::edge {

// Bounds of one message; the transport bounds the message as a whole (docs/wire.md).
inline constexpr std::size_t kMaxWord = 256;          // names, versions, codes
inline constexpr std::size_t kMaxPath = 4096;         // PATH_MAX
inline constexpr std::size_t kMaxText = 64 << 10;     // sentences, evidence; cut by ToProto
inline constexpr std::size_t kMaxValue = 128 << 10;   // MAX_ARG_STRLEN: one word for execve
inline constexpr std::size_t kMaxScript = 256 << 10;  // run, setup, a job file
inline constexpr std::size_t kMaxFile = 1 << 20;      // one generated file
inline constexpr std::size_t kMaxSpec = 256 << 10;    // a JobSpec on the wire
inline constexpr std::size_t kMaxPattern = 1 << 10;
inline constexpr std::size_t kMaxConstraint = 4 << 10;
inline constexpr int kMaxNodes = 10'000;
inline constexpr int kMaxRanks = 65'536;
inline constexpr int kMaxGpusPerNode = 1'024;
inline constexpr int kMaxCpus = 65'536;
inline constexpr int kMaxArgs = 4'096;
inline constexpr int kMaxEnv = 4'096;
inline constexpr int kMaxItems = 10'000;    // lists of values without a bound of their own
inline constexpr int kMaxRows = 1'000'000;  // jobs and nodes of a reply
inline constexpr std::int64_t kMaxMs = 100'000'000'000'000;  // some 3,000 years

// Text for people: repaired to valid UTF-8 and cut at kMaxText, on the way out.
std::string Utf8(std::string_view text);

// Equal values give equal bytes (the order of maps is fixed): digests are made of them.
std::string SerializeDeterministic(const google::protobuf::MessageLite& message);

// `inner`, an error about a part, as an error about the whole: `field` goes in front of its path.
Error Under(std::string_view field, const Error& inner);

// First problem of one message. Readers return a default value once there is a problem, so that a
// conversion reads straight down and asks only at the end.
class Edge {
 public:
  bool ok() const { return !error_.has_value(); }
  // Records `problem` of `field` unless `holds` or there is an earlier one.
  void Require(bool holds, std::string_view field, std::string_view problem);

  std::string Text(std::string_view field, const std::string& value, std::size_t max = kMaxText);
  std::string Word(std::string_view field, const std::string& value);  // non-empty, one line
  std::string MaybeWord(std::string_view field, const std::string& value);
  std::string Name(std::string_view field, const std::string& value);  // IsValidName
  std::string MaybeName(std::string_view field, const std::string& value);
  std::string Choice(std::string_view field, const std::string& value,
                     std::initializer_list<std::string_view> choices);
  NodeId Node(std::string_view field, const std::string& value) {
    return NodeId{Name(field, value)};
  }
  GpuUuid Gpu(std::string_view field, const std::string& value);
  JobId Job(std::string_view field, std::uint64_t value);
  Attempt AttemptOf(std::string_view field, std::uint32_t value);
  Rank RankOf(std::string_view field, std::int32_t value) {
    return Int(field, value, 0, kMaxRanks - 1);
  }
  std::string Hex(std::string_view field, const std::string& value, std::size_t digits);
  std::string Digest(std::string_view field, const std::string& value) {
    return Hex(field, value, 64);
  }
  std::string MaybeDigest(std::string_view field, const std::string& value) {
    return value.empty() ? std::string() : Digest(field, value);
  }
  std::string BootId(std::string_view field, const std::string& value);  // may be empty

  // What reaches the kernel: bytes without NUL.
  std::string Bytes(std::string_view field, const std::string& value, std::size_t max = kMaxValue);
  std::string Path(std::string_view field, const std::string& value);
  std::string AbsolutePath(std::string_view field, const std::string& value);
  std::string MaybeAbsolutePath(std::string_view field, const std::string& value) {
    return value.empty() ? std::string() : AbsolutePath(field, value);
  }
  std::string EnvName(std::string_view field, const std::string& value);
  std::string FileName(std::string_view field, const std::string& value);  // no '/', not dots

  int Int(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high);
  std::int64_t Int64(std::string_view field, std::int64_t value, std::int64_t low);
  int Signal(std::string_view field, std::int32_t value) { return Int(field, value, 1, 64); }
  int Port(std::string_view field, std::int32_t value) { return Int(field, value, 1, 65'535); }
  double Number(std::string_view field, double value);  // finite
  Millis Duration(std::string_view field, std::int64_t ms);
  WallTime Wall(std::string_view field, std::int64_t ms);
  BootTime Boot(std::string_view field, std::int64_t ms);

  // A message or enum with a FromProto of its own.
  template <class M>
  auto Value(std::string_view field, const M& m) {
    auto value = FromProto(m);
    using T = typename decltype(value)::value_type;
    if (value) return std::move(*value);
    Nest(field, value.error());
    return T{};
  }
  // `read` makes one element from (field with index, wire element).
  template <class Repeated, class Read>
  auto Each(std::string_view field, const Repeated& repeated, int max, Read read) {
    using T = decltype(read(std::string(), *repeated.begin()));
    std::vector<T> values;
    if (repeated.size() > max) Require(false, field, TooMany(max));
    if (!ok()) return values;
    values.reserve(static_cast<std::size_t>(repeated.size()));
    for (const auto& element : repeated) {
      values.push_back(read(Index(field, values.size()), element));
      if (!ok()) return values;
    }
    return values;
  }
  template <class Repeated>
  auto Values(std::string_view field, const Repeated& repeated, int max) {
    return Each(field, repeated, max,
                [this](const std::string& at, const auto& m) { return this->Value(at, m); });
  }
  template <class Repeated>
  std::vector<std::string> Words(std::string_view field, const Repeated& repeated, int max) {
    return Each(field, repeated, max,
                [this](const std::string& at, const std::string& m) { return Word(at, m); });
  }
  template <class Repeated>
  std::vector<std::string> Texts(std::string_view field, const Repeated& repeated, int max) {
    return Each(field, repeated, max,
                [this](const std::string& at, const std::string& m) { return Text(at, m); });
  }
  template <class Repeated>
  std::vector<NodeId> Nodes(std::string_view field, const Repeated& repeated) {
    return Each(field, repeated, kMaxNodes,
                [this](const std::string& at, const std::string& m) { return Node(at, m); });
  }
  template <class Repeated>
  std::vector<GpuUuid> Gpus(std::string_view field, const Repeated& repeated) {
    return Each(field, repeated, kMaxGpusPerNode,
                [this](const std::string& at, const std::string& m) { return Gpu(at, m); });
  }
  template <class Repeated>
  std::vector<int> Ints(std::string_view field, const Repeated& repeated, int max, int low,
                        int high) {
    return Each(field, repeated, max,
                [&](const std::string& at, std::int32_t m) { return Int(at, m, low, high); });
  }
  // Maps of text by word, and of environment values by variable.
  template <class Map>
  std::map<std::string, std::string> TextMap(std::string_view field, const Map& map, int max) {
    std::map<std::string, std::string> values;
    Require(static_cast<std::int64_t>(map.size()) <= max, field, TooMany(max));
    if (!ok()) return values;
    for (const auto& [key, value] : map) {
      std::string name = Word(field, key);
      values.emplace(std::move(name), Text(Entry(field, key), value));
    }
    return values;
  }
  template <class Map>
  std::map<std::string, std::string> EnvMap(std::string_view field, const Map& map) {
    std::map<std::string, std::string> values;
    Require(map.size() <= kMaxEnv, field, TooMany(kMaxEnv));
    if (!ok()) return values;
    for (const auto& [key, value] : map) {
      std::string name = EnvName(field, key);
      values.emplace(std::move(name), Bytes(Entry(field, key), value));
    }
    return values;
  }
  // Elements of `values`, seen through `key`, are distinct.
  template <class T, class KeyOf>
  void RequireDistinct(std::string_view field, const std::vector<T>& values, KeyOf key) {
    if (!ok()) return;
    std::set<std::decay_t<decltype(key(*values.begin()))>> seen;
    for (const T& value : values) {
      Require(seen.insert(key(value)).second, field, "names the same thing twice");
    }
  }
  template <class T>
  void RequireDistinct(std::string_view field, const std::vector<T>& values) {
    RequireDistinct(field, values, [](const T& value) { return value; });
  }

  template <class T>
  Result<T> Done(T value) {
    if (error_) return Unexpected(std::move(*error_));
    return value;
  }

 private:
  void Nest(std::string_view field, const Error& inner);
  static std::string TooMany(int max);
  static std::string Index(std::string_view field, std::size_t index);
  static std::string Entry(std::string_view field, const std::string& key);

  std::optional<Error> error_;
};

// Wire value 0 is UNSPECIFIED; the others follow the C++ enumerators one to one.
template <class E, class Wire>
Result<E> EnumFromProto(Wire m, E last) {
  const int value = static_cast<int>(m);
  if (value == 0) return Fail(ErrorCode::kInvalidArgument, "is not set");
  if (value < 0 || value > static_cast<int>(last) + 1) {
    return Fail(ErrorCode::kInvalidArgument, "has the unknown value " + std::to_string(value));
  }
  return static_cast<E>(value - 1);
}
template <class Wire, class E>
Wire EnumToProto(E v) {
  return static_cast<Wire>(static_cast<int>(v) + 1);
}

}  // namespace launch::edge

// Both directions of one enum; the assertion catches an enumerator that one side lacks.
#define LAUNCH_CONVERT_ENUM(Type, last)                                                \
  static_assert(static_cast<int>(Type::last) + 1 == static_cast<int>(pb::Type##_MAX)); \
  pb::Type ToProto(Type v) { return edge::EnumToProto<pb::Type>(v); }                  \
  Result<Type> FromProto(pb::Type m) { return edge::EnumFromProto(m, Type::last); }
