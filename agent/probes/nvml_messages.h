// What the agent and its NVML child say to each other: length-prefixed JSON on two pipes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/probes/gpu_probe.h"
#include "common/error.h"

namespace launch::agent {

inline constexpr std::string_view kAskOpen =
    "open";  // answered by facts that hold the problem only
inline constexpr std::string_view kAskList = "list";
inline constexpr std::string_view kAskSample = "sample";
inline constexpr std::string_view kAskProcesses = "processes";

// Problem of a child that could not load the library; the probe decides what it means.
inline constexpr std::string_view kNoLibrary = "no_library: ";

std::string EncodeRequest(std::string_view verb);
Result<std::string> DecodeRequest(std::string_view text);

// Text that the driver gives is not trusted to be UTF-8.
std::string EncodeFacts(const GpuFacts& facts);
Result<GpuFacts> DecodeFacts(std::string_view text);
std::string EncodeSamples(const std::vector<GpuSample>& samples);
Result<std::vector<GpuSample>> DecodeSamples(std::string_view text);
std::string EncodeProcesses(const GpuProcessList& lists);
Result<GpuProcessList> DecodeProcesses(std::string_view text);

// A frame is four bytes of length, least significant first, and that many bytes.
inline constexpr std::size_t kFrameHeader = 4;
inline constexpr std::size_t kMaxFrame = 4u << 20;
std::string FrameOf(std::string_view body);
std::size_t FrameLength(std::string_view header);  // of its first four bytes

}  // namespace launch::agent
