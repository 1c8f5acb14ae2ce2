// GPUs, NVLink and the GSP processor: kernel lines of the driver and what CUDA and NVML say.
// Sources: NVIDIA's Xid catalogue, NVIDIA/open-gpu-kernel-modules (NVRM texts), cudaGetErrorString,
// nvmlErrorString, nvidia-smi, Linux drivers/pci/pcie/aer.c.
#include "diagnosis/signature.h"

namespace launch {
namespace {

// A health check that found none.
constexpr std::string_view kNoErrors =
    R"((?i)\b(?:0|no|zero) (?:volatile |aggregate |new )?(?:uncorrect|double)|)"
    R"((?:errors?|ECC|DRAM|SRAM)\)?\s*(?:count|\(\w+\))?\s*[:=|]?\s*(?:0\b|none|N/A))";
constexpr std::string_view kIsNot = R"((?i)(?:lost|bus|reset)\W{1,3}(?:no|none|0|false)\b)";

constexpr Signature kHardwareSignatures[] = {
    {.tier = Tier::kHardware,
     .weight = 60,
     .phrases = {"NVRM: Xid", "Xid (PCI", "NVRM: XID", "XID (PCI", "Xid (0000", "nvidia: Xid"},
     .pattern = R"(\bX[Ii][Dd] ?\(([^)]*)\): ?(\d+))",
     .reading = Reading::kXid},
    {.tier = Tier::kHardware,
     .weight = 55,
     .phrases = {"Xid error", "XID error", "Xid Error", "XID Error", "Detected XID", "Xid code"},
     .pattern = R"(X[Ii][Dd](?: \w+)?\W{0,3}(?:code )?(\d{1,3})\b)",
     .reading = Reading::kXid},
    {.tier = Tier::kHardware,
     .weight = 55,
     .phrases = {"XID_ERR", "Xid event", "XID event", "critical Xid", "XidCriticalError",
                 "xid event"},
     .pattern = R"([Xx][Ii][Dd](?:_ERR\w*|CriticalError| [Ee]vents?)?[^\d;,.]{0,20}(\d{1,3})\b)",
     .veto = R"((?i)\b(?:no|0|zero) (?:new |critical )?xid|resolved)",
     .reading = Reading::kXid},

    {.label = "ecc",
     .tier = Tier::kHardware,
     .weight = 58,
     .phrases = {"ncorrectable ECC error", "ECC_UNCORRECTABLE", "ECCUncorrectable",
                 "double bit error", "ncorrectable DRAM", "ncorrectable SRAM"},
     .pattern = R"([Uu]ncorrectable ECC error|ECC_UNCORRECTABLE|ECCUncorrectable|double bit error|)"
                R"([Uu]ncorrectable (?:D|S)RAM)",
     .veto = kNoErrors},
    {.label = "ecc",
     .tier = Tier::kHardware,
     .weight = 56,
     .phrases = {"Row Remapper: Error", "remapping failure", "row remap failure",
                 "ncorrectable memory error", "Double Bit ECC", "double-bit ECC"},
     .pattern =
         R"(Row Remapper: Error|[Rr](?:ow |e)?remap\w* failure(?:\s*[:=]\s*(?:[Yy]es|1|[Tt]rue))?|)"
         R"([Uu]ncorrectable memory error|[Dd]ouble[ -][Bb]it ECC error)",
     .veto =
         R"((?i)failure\S*\s*[:=|]\s*(?:no|0|false)|(?:errors?|ecc\)?)\s*[:=|]?\s*0\b|\b(?:0|no|zero) \w*\s?(?:double|uncorrect))"},
    {.label = "gpu_remap_pending",
     .tier = Tier::kNote,
     .weight = 60,
     .phrases = {"Row Remapper: New row", "emapped rows pending", "remapping pending",
                 "emapping Pending", "row remap pending", "Row remapping"},
     .pattern =
         R"(Row Remapper: New row|(?i:remap(?:ped|ping)? ?(?:rows? )?pending)[^\n]*|Row remapping pending)",
     .veto = R"((?i)pending\S*\s*[:=|]\s*(?:no|0|false))"},

    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"fallen off the bus", "GPU is lost", "Unable to determine the device handle",
                 "RESET_REQUIRED", "GPU requires reset", "recover this GPU"},
     .pattern =
         R"(fallen off the bus|GPU is lost|Unable to determine the device handle|)"
         R"((?:NV_ERR_|NVML_ERROR_|CUDA_ERROR_)RESET_REQUIRED|GPU requires reset|recover this GPU)",
     .veto = kIsNot},
    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .weight = 50,
     .phrases = {"RmInitAdapter failed", "NV_ERR_GPU_IS_LOST", "rm_init_adapter failed", "AER: Unc",
                 "hardware stack error", "GPU_IS_LOST"},
     .pattern = R"(RmInitAdapter failed|rm_init_adapter failed|GPU_IS_LOST|hardware stack error|)"
                R"(AER: (?:Multiple )?Uncorrect\w+ \(Fatal\))"},
    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .confidence = Confidence::kSymptom,
     .weight = 30,
     .phrases = {"busy or unavailable", "ErrorDevicesUnavailable", "No devices were found",
                 "Unknown Error", "communicate with the NVIDIA driver"},
     .pattern =
         R"(device(?:s|\(s\))? (?:is/are|is|are) busy or unavailable|cudaErrorDevicesUnavailable|)"
         R"(^No devices were found|NVML: Unknown Error|communicate with the NVIDIA driver)"},

    {.label = "xid_nvlink",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"NVLink error", "NvlinkUncorrectable", "NVLINK_UNCORRECTABLE", "NVLink: fatal",
                 "nvidia-nvswitch", "NVLink fatal"},
     .pattern =
         R"((?:[Uu]ncorrectable|[Ff]atal) (?:NVLink|nvlink|NVLINK) error|NvlinkUncorrectable|NVLINK_UNCORRECTABLE|)"
         R"(NVLink:? [Ff]atal|nvidia-nvswitch\d*: SXid \([^)]*\): \d+, (?:Fatal|fatal))"},

    {.label = "xid_nvlink",  // the switch's own numbers; what is not fatal it mends itself
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"SXid (PCI"},
     .pattern = R"(SXid \([^)]*\): \d+, (?i:fatal))"},

    {.label = "xid_gsp",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"GSP RM heartbeat", "RPC response from GSP", "GSP-RM ", "GSP firmware",
                 "RPC from GSP", "kgspBootstrap"},
     .pattern =
         R"(GSP RM heartbeat timed out|[Tt]imeout (?:after \S+ )?(?:of )?(?:waiting for|of) (?:a )?(?:RPC|\w+ )?(?:response )?from GSP|)"
         R"(waiting for RPC (?:response )?from GSP|GSP-RM[^\n]*(?:fail|error|halt|timed? ?out)|)"
         R"(GSP firmware[^\n]*(?:fail|error|timed? ?out)|kgspBootstrap\w*[^\n]*(?:fail|timed? ?out))"},
    // src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c prints the function's name in front.
    {.label = "xid_gsp",
     .tier = Tier::kHardware,
     .weight = 56,
     .phrases = {"_kgspIsHeartbeat", "_kgspLogRpcTimeout", "_kgspRpcRecvPoll", "*** GSP Timeout"},
     .pattern = R"(_kgsp\w+: [^\n]*(?i:timed out|timeout)|\*\*\* GSP Timeout)"},
};

}  // namespace

std::span<const Signature> HardwareSignatures() { return kHardwareSignatures; }

}  // namespace launch
