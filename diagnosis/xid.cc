#include "diagnosis/xid.h"

#include <algorithm>

namespace launch {
namespace {

struct Row {
  int code;
  XidMeaning meaning;
};

constexpr int kLargestXid = 511;
constexpr std::string_view kEcc = "ecc";
constexpr std::string_view kGpuHardware = "xid_gpu_hardware";
constexpr std::string_view kLink = "xid_nvlink";
constexpr std::string_view kGsp = "xid_gsp";
constexpr std::string_view kApp = "xid_app_fault";

// Ordered by code.
constexpr Row kXids[] = {
    {8, {kApp, "the GPU stopped processing"}},
    {13, {kApp, "graphics engine exception"}},
    {31, {kApp, "GPU memory page fault"}},
    {32, {kApp, "invalid or corrupted push buffer"}},
    {37, {"", "driver firmware error"}},
    {38, {"", "driver firmware error"}},
    {43, {kApp, "the GPU stopped processing"}},
    {44, {"", "graphics engine fault during context switch"}},
    {45, {"", "preemptive clean-up after an earlier error"}},
    {46, {kGpuHardware, "the GPU stopped answering"}},
    {48, {kEcc, "double-bit ECC error"}},
    {54, {kGpuHardware, "auxiliary power is not connected"}},
    {61, {kGpuHardware, "internal micro-controller breakpoint"}},
    {62, {kGsp, "internal micro-controller halt"}},
    {63, {"gpu_remap_pending", "a memory row was marked for remapping"}},
    {64, {kEcc, "remapping a memory row failed"}},
    {66, {"", "illegal access by the driver"}},
    {67, {"", "illegal access by the driver"}},
    {74, {kLink, "NVLink error"}},
    {79, {kGpuHardware, "the GPU has fallen off the bus"}},
    {92, {"", "high rate of single-bit ECC errors"}},
    {93, {"", "non-fatal violation of the provisioned InfoROM wear limit"}},
    {94, {kEcc, "contained memory error"}},
    {95, {kEcc, "uncontained memory error"}},
    {106, {"", "SMBPBI test message"}},
    {107, {"", "SMBPBI test message"}},
    {109, {kGpuHardware, "context switch timeout"}},
    {110, {kGpuHardware, "security fault"}},
    {119, {kGsp, "GSP remote procedure call timed out"}},
    {120, {kGsp, "GSP error"}},
    {121, {"", "C2C link corrected error"}},
    {136, {kGpuHardware, "link training failed"}},
    {137, {kLink, "NVLink privilege error"}},
    {140, {kEcc, "unrecovered ECC error"}},
    {141, {kLink, "NVLink fast-path error"}},
    {143, {kGpuHardware, "GPU initialisation error"}},
    {144, {kLink, "NVLink SAW error"}},
    {145, {kLink, "NVLink RLW error"}},
    {146, {kLink, "NVLink TLW error"}},
    {147, {kLink, "NVLink TREX error"}},
    {148, {kLink, "NVLink NVLPW_CTRL error"}},
    {149, {kLink, "NVLink NETIR error"}},
    {150, {kLink, "NVLink MSE error"}},
    {152, {"", "status change"}},
    {153, {"", "status change"}},
    {154, {kGpuHardware, "the driver asks for a recovery of the GPU"}},
    {155, {kGpuHardware, "NVLink software-defined error"}},
    {156, {kGpuHardware, "resource retirement"}},
    {157, {kGpuHardware, "resource retirement failed"}},
    {158, {kGpuHardware, "fatal timeout"}},
    {160, {"", "channel retirement"}},
    {161, {"", "channel retirement failed"}},
    {171, {kEcc, "additional facts to a double-bit ECC error in DRAM"}},
    {172, {kEcc, "additional facts to a double-bit ECC error in SRAM"}},
};

}  // namespace

XidMeaning MeaningOfXid(int code) {
  if (code <= 0 || code > kLargestXid) return {"", "no Xid"};  // "Xid errors: 0"
  const auto* row = std::lower_bound(std::begin(kXids), std::end(kXids), code,
                                     [](const Row& r, int c) { return r.code < c; });
  if (row != std::end(kXids) && row->code == code) return row->meaning;
  // Engines and copy engines: restart the application (5.1's last group but one).
  const bool engine =
      (code > 0 && code < 46) || (code >= 60 && code <= 105) || (code >= 126 && code <= 139);
  if (engine) return {kApp, "engine error"};
  return {kGpuHardware, "unlisted GPU error"};
}

}  // namespace launch
