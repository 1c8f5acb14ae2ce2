#include "agent/probes/nvml_messages.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace launch::agent {
namespace {

using nlohmann::json;

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
void Put(json& to, const char* key, const std::optional<T>& value) {
  if (value) to[key] = *value;
}

// get<int>() of the library casts whatever number stands there.
template <class T>
T Get(const json& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : value.is_number_integer() &&
                                                       std::in_range<T>(value.get<std::int64_t>());
    if (!fits) throw std::out_of_range(Dump(value) + " is no number of that size");
    return value.is_number_unsigned() ? static_cast<T>(value.get<std::uint64_t>())
                                      : static_cast<T>(value.get<std::int64_t>());
  } else {
    return value.get<T>();
  }
}

template <class T>
std::optional<T> Take(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) return std::nullopt;
  return Get<T>(*found);
}

json JsonOf(const GpuDevice& gpu) {
  json to{{"uuid", gpu.uuid.value},           {"model", gpu.model},
          {"memory_bytes", gpu.memory_bytes}, {"pci", gpu.pci},
          {"health", ToString(gpu.health)},   {"why", gpu.why}};
  if (gpu.cc) to["cc"] = {gpu.cc->major, gpu.cc->minor};
  Put(to, "reserved_bytes", gpu.reserved_bytes);
  Put(to, "numa", gpu.numa);
  Put(to, "ecc", gpu.ecc);
  Put(to, "persistence", gpu.persistence);
  Put(to, "power_limit_w", gpu.power_limit_w);
  for (const MigSlice& slice : gpu.mig)
    to["mig"].push_back({{"uuid", slice.uuid.value},
                         {"profile", slice.profile},
                         {"memory_bytes", slice.memory_bytes}});
  for (const GpuLink& link : gpu.links) {
    json one{{"peer", link.peer_pci}, {"kind", ToString(link.kind)}};
    Put(one, "version", link.version);
    Put(one, "count", link.count);
    to["links"].push_back(std::move(one));
  }
  json& pcie = to["pcie"] = json::object();
  Put(pcie, "generation", gpu.pcie.generation);
  Put(pcie, "max_generation", gpu.pcie.max_generation);
  Put(pcie, "width", gpu.pcie.width);
  Put(pcie, "max_width", gpu.pcie.max_width);
  json& clocks = to["clocks"] = json::object();
  Put(clocks, "graphics_max", gpu.clocks.graphics_max);
  Put(clocks, "graphics_set", gpu.clocks.graphics_set);
  Put(clocks, "memory_max", gpu.clocks.memory_max);
  if (gpu.remapped)
    to["remapped"] = {{"correctable", gpu.remapped->correctable},
                      {"uncorrectable", gpu.remapped->uncorrectable},
                      {"pending", gpu.remapped->pending},
                      {"failed", gpu.remapped->failed}};
  if (gpu.fabric) to["fabric"] = ToString(*gpu.fabric);
  return to;
}

void TakeHardware(const json& from, GpuDevice& gpu) {
  const json pcie = from.value("pcie", json::object());
  gpu.pcie = {.generation = Take<int>(pcie, "generation"),
              .max_generation = Take<int>(pcie, "max_generation"),
              .width = Take<int>(pcie, "width"),
              .max_width = Take<int>(pcie, "max_width")};
  const json clocks = from.value("clocks", json::object());
  gpu.clocks = {.graphics_max = Take<int>(clocks, "graphics_max"),
                .graphics_set = Take<int>(clocks, "graphics_set"),
                .memory_max = Take<int>(clocks, "memory_max")};
  if (const auto rows = from.find("remapped"); rows != from.end())
    gpu.remapped = RemappedRows{.correctable = Get<int>(rows->at("correctable")),
                                .uncorrectable = Get<int>(rows->at("uncorrectable")),
                                .pending = rows->at("pending").get<bool>(),
                                .failed = rows->at("failed").get<bool>()};
  if (const auto fabric = Take<std::string>(from, "fabric")) gpu.fabric = ParseFabricState(*fabric);
}

GpuDevice GpuOf(const json& from) {
  GpuDevice gpu;
  gpu.uuid.value = from.at("uuid");
  gpu.model = from.at("model");
  gpu.memory_bytes = Get<std::uint64_t>(from.at("memory_bytes"));
  gpu.pci = from.at("pci");
  gpu.health = ParseHealth(from.at("health").get<std::string>()).value_or(Health::kBad);
  gpu.why = from.at("why");
  if (from.contains("cc"))
    gpu.cc = ComputeCapability{Get<int>(from["cc"].at(0)), Get<int>(from["cc"].at(1))};
  gpu.reserved_bytes = Take<std::uint64_t>(from, "reserved_bytes");
  gpu.numa = Take<int>(from, "numa");
  gpu.ecc = Take<bool>(from, "ecc");
  gpu.persistence = Take<bool>(from, "persistence");
  gpu.power_limit_w = Take<int>(from, "power_limit_w");
  TakeHardware(from, gpu);
  for (const json& slice : from.value("mig", json::array()))
    gpu.mig.push_back({.uuid = GpuUuid{slice.at("uuid").get<std::string>()},
                       .profile = slice.at("profile").get<std::string>(),
                       .memory_bytes = Get<std::uint64_t>(slice.at("memory_bytes"))});
  for (const json& link : from.value("links", json::array()))
    gpu.links.push_back(
        {.peer_pci = link.at("peer").get<std::string>(),
         .kind = ParseLinkKind(link.at("kind").get<std::string>()).value_or(LinkKind::kSys),
         .version = Take<int>(link, "version"),
         .count = Take<int>(link, "count")});
  return gpu;
}

std::vector<int> XidsOf(const json& from) {
  std::vector<int> xids;
  for (const json& xid : from) xids.push_back(Get<int>(xid));
  return xids;
}

// Runs `read` over the parsed text; a malformed answer is an error, never a crash.
template <class T, class Read>
Result<T> Decode(std::string_view text, Read read) {
  const auto bad = [](const std::exception& error) {
    return Fail(ErrorCode::kDataLoss,
                std::string("malformed message of the NVML child: ") + error.what());
  };
  try {
    return read(json::parse(text));
  } catch (const json::exception& error) {
    return bad(error);
  } catch (const std::out_of_range& error) {
    return bad(error);
  }
}

}  // namespace

std::string EncodeRequest(std::string_view verb) { return Dump({{"verb", verb}}); }

Result<std::string> DecodeRequest(std::string_view text) {
  return Decode<std::string>(text,
                             [](const json& from) { return from.at("verb").get<std::string>(); });
}

std::string EncodeFacts(const GpuFacts& facts) {
  json to{{"coherent", ToString(facts.coherent)}, {"problem", facts.problem}};
  Put(to, "driver", facts.driver);
  if (facts.driver_cuda) to["driver_cuda"] = {facts.driver_cuda->major, facts.driver_cuda->minor};
  to["gpus"] = json::array();
  for (const GpuDevice& gpu : facts.gpus) to["gpus"].push_back(JsonOf(gpu));
  return Dump(to);
}

Result<GpuFacts> DecodeFacts(std::string_view text) {
  return Decode<GpuFacts>(text, [](const json& from) {
    GpuFacts facts;
    facts.problem = from.at("problem");
    facts.coherent =
        ParseCoherentMode(from.at("coherent").get<std::string>()).value_or(CoherentMode::kNone);
    facts.driver = Take<std::string>(from, "driver");
    if (from.contains("driver_cuda"))
      facts.driver_cuda =
          CudaVersion{Get<int>(from["driver_cuda"].at(0)), Get<int>(from["driver_cuda"].at(1))};
    for (const json& gpu : from.at("gpus")) facts.gpus.push_back(GpuOf(gpu));
    return facts;
  });
}

std::string EncodeSamples(const std::vector<GpuSample>& samples) {
  json to = json::array();
  for (const GpuSample& sample : samples) {
    json one{{"uuid", sample.uuid.value}};
    Put(one, "utilization", sample.utilization);
    Put(one, "used_bytes", sample.used_bytes);
    Put(one, "power_w", sample.power_w);
    Put(one, "temperature_c", sample.temperature_c);
    Put(one, "ecc_uncorrected", sample.ecc_uncorrected);
    if (!sample.xids.empty()) one["xids"] = sample.xids;
    to.push_back(std::move(one));
  }
  return Dump(to);
}

Result<std::vector<GpuSample>> DecodeSamples(std::string_view text) {
  return Decode<std::vector<GpuSample>>(text, [](const json& from) {
    std::vector<GpuSample> samples;
    for (const json& one : from)
      samples.push_back({.uuid = GpuUuid{one.at("uuid").get<std::string>()},
                         .utilization = Take<double>(one, "utilization"),
                         .used_bytes = Take<std::uint64_t>(one, "used_bytes"),
                         .power_w = Take<double>(one, "power_w"),
                         .temperature_c = Take<double>(one, "temperature_c"),
                         .xids = XidsOf(one.value("xids", json::array())),
                         .ecc_uncorrected = Take<std::uint64_t>(one, "ecc_uncorrected")});
    return samples;
  });
}

std::string EncodeProcesses(const GpuProcessList& lists) {
  json to = json::array();
  for (const auto& [uuid, processes] : lists) {
    json listed = json::array();
    for (const GpuProcess& process : processes) {
      json one{{"pid", process.pid}};
      Put(one, "bytes", process.bytes);
      listed.push_back(std::move(one));
    }
    to.push_back({{"uuid", uuid.value}, {"processes", std::move(listed)}});
  }
  return Dump(to);
}

Result<GpuProcessList> DecodeProcesses(std::string_view text) {
  return Decode<GpuProcessList>(text, [](const json& from) {
    GpuProcessList lists;
    for (const json& gpu : from) {
      std::vector<GpuProcess> processes;
      for (const json& one : gpu.at("processes"))
        processes.push_back({.pid = Get<std::int64_t>(one.at("pid")),
                             .user = {},
                             .name = {},
                             .bytes = Take<std::uint64_t>(one, "bytes")});
      lists.emplace_back(GpuUuid{gpu.at("uuid").get<std::string>()}, std::move(processes));
    }
    return lists;
  });
}

std::string FrameOf(std::string_view body) {
  std::string frame;
  for (unsigned shift = 0; shift < 32; shift += 8)
    frame.push_back(static_cast<char>(body.size() >> shift & 0xff));
  return frame.append(body);
}

std::size_t FrameLength(std::string_view header) {
  std::size_t length = 0;
  for (unsigned i = 0; i < kFrameHeader; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return length;
}

}  // namespace launch::agent
