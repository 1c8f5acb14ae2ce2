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
constexpr std::string_view kIsNot =
    R"((?i)(?:lost|bus|reset)\W{1,3}(?:no|none|0|false)\b|docs\.nvidia\.com)";

constexpr Signature kHardwareSignatures[] = {
    {.tier = Tier::kHardware,
     .weight = 60,
     .phrases = {"Xid (PCI", "XID (PCI", "Xid(PCI", "XID(PCI", "Xid (0000", "XID (0000", "Xid(0000",
                 "XID(0000"},
     .pattern = R"(\bX[Ii][Dd] ?\(((?:PCI|0000)[^)]*)\): ?(\d+))",
     .reading = Reading::kXid},
    {.tier = Tier::kHardware,
     .weight = 55,
     .phrases = {"Xid error", "XID error", "Xid Error", "XID Error", "Detected XID", "Xid code"},
     .pattern = R"(X[Ii][Dd](?: [Ee]rrors?)?\W{0,3}(?:code )?\W{0,2}(\d{1,3})\b)",
     .veto = R"(docs\.nvidia\.com)",
     .reading = Reading::kXid},
    {.tier = Tier::kHardware,
     .weight = 55,
     .phrases = {"XID_ERR", "Xid event", "XID event", "critical Xid", "XidCriticalError",
                 "xid event"},
     .pattern = R"([Xx][Ii][Dd](?:_ERR\w*|CriticalError| [Ee]vents?)?[^\d;,.]{0,20}(\d{1,3})\b)",
     .veto = R"((?i)\b(?:no|0|zero) (?:new |critical )?xid|resolved|docs\.nvidia\.com)",
     .reading = Reading::kXid},

    // Xid 45 of newer drivers.
    {.tier = Tier::kHardware,
     .weight = 55,
     .phrases = {"caused by previous Xid "},
     .pattern = R"(caused by previous Xid (\d{1,3})\b)",
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
     .phrases = {"Row Remapper: Error", "emapping failure", "emapping Failure", "emap failure",
                 "ncorrectable memory error", "ouble Bit ECC", "ouble-Bit ECC", "ouble bit ECC",
                 "ouble-bit ECC"},
     .pattern = R"(Row Remapper: Error|[Rr]emapping [Ff]ailure(?: Occurred)?|[Rr]emap failure|)"
                R"([Uu]ncorrectable memory error|[Dd]ouble[ -][Bb]it ECC error)",
     .veto =
         R"((?i)failure(?: occurred)?\S*\s*[:=|]\s*(?:no|0|false)|(?:errors?|ecc\)?)\s*[:=|]?\s*0\b|\b(?:0|no|zero) \w*\s?(?:double|uncorrect))"},
    {.label = "gpu_remap_pending",
     .tier = Tier::kNote,
     .weight = 60,
     .phrases = {"Row Remapper: New row", "emapped rows pending", "remapping pending",
                 "emapping Pending", "row remap pending", "Row remapping"},
     .pattern =
         R"(Row Remapper: New row|(?i:remap(?:ped|ping)? ?(?:rows? )?pending)[^\n]*|Row remapping pending)",
     .veto = R"((?i)pending\S*\s*[:=|]\s*(?:no|0|false))"},
    // nvidia-smi -q -d ROW_REMAPPER: the word stands some lines below.
    {.label = "gpu_remap_pending",
     .tier = Tier::kNote,
     .weight = 60,
     .phrases = {"Remapped Rows"},
     .pattern = R"(Remapped Rows [^\n]*Pending +: Yes)"},

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
     .phrases = {"RmInitAdapter failed", "NV_ERR_GPU_IS_LOST", "rm_init_adapter failed",
                 "AER: Uncorrect", "AER: Multiple", "hardware stack error", "GPU_IS_LOST"},
     .pattern = R"(RmInitAdapter failed|rm_init_adapter failed|GPU_IS_LOST|hardware stack error|)"
                R"(AER: (?:Multiple )?Uncorrect\w+ \(Fatal\))"},
    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .confidence = Confidence::kSymptom,
     .weight = 30,
     .phrases = {"No devices were found", "NVML: Unknown Error",
                 "communicate with the NVIDIA driver"},
     .pattern = R"(^No devices were found|NVML: Unknown Error|communicate with the NVIDIA driver)"},
    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .confidence = Confidence::kSymptom,
     .weight = 30,
     .phrases = {"busy or unavailable", "ErrorDevicesUnavailable"},
     .pattern =
         R"(device(?:s|\(s\))? (?:is/are|is|are) busy or unavailable|cudaErrorDevicesUnavailable)",
     .cause = "The GPU takes no further program: another one has it to itself (exclusive compute "
              "mode), or it does not answer",
     .remedy =
         "nvidia-smi --query-gpu=index,compute_mode --format=csv; nvidia-smi   # whose it is; "
         "sudo nvidia-smi -c 0 lets several programs share it"},
    {.label = "unknown",  // libtpu's; its lock outlives a program that was killed
     .tier = Tier::kProgram,
     .confidence = Confidence::kSymptom,
     .weight = 45,
     .phrases = {"TPU is already in use by", "libtpu.so already in use",
                 "libtpu multi-process lockfile", "Device or resource busy"},
     .pattern =
         R"((?:TPU is|libtpu\.so) already in used? by (?:a(?:nother)? )?process|libtpu multi-process lockfile|)"
         R"(open\(/dev/(?:accel|vfio/)\d+\): [^\n]*Device or resource busy)",
     .cause = "The TPU takes no further program: another process has it",
     .action = "retry_elsewhere",
     .remedy = "sudo lsof -w /dev/accel* /dev/vfio/*   # end what is left of an earlier run; then "
               "remove /tmp/libtpu_lockfile"},

    {.label = "xid_nvlink",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"NVLink error", "NvlinkUncorrectable", "NVLINK_UNCORRECTABLE", "nvlink error",
                 "NVLINK error", "NVLink: fatal", "NVLink: Fatal", "NVLink fatal", "NVLink Fatal",
                 "SXid (PCI"},
     .pattern =
         R"((?:[Uu]ncorrectable|[Ff]atal) (?:NVLink|nvlink|NVLINK) error|NvlinkUncorrectable|NVLINK_UNCORRECTABLE|)"
         R"(NVLink:? [Ff]atal|)"
         // The switch's own numbers; what is not fatal it mends itself.
         R"(SXid \(PCI[^)]*\): \d+, [Ff]atal)"},

    // drivers/edac/edac_mc.c, mm/memory-failure.c: the node's main memory, not a GPU's.
    {.label = "ecc",
     .tier = Tier::kHardware,
     .weight = 58,
     .phrases = {"EDAC MC", "Memory failure: 0x", "ncorrected hardware memory error"},
     .pattern = R"(EDAC MC\d+: \d+ UE |Memory failure: 0x[0-9a-f]+: (?:Killing|Sending SIGBUS)|)"
                R"([Uu]ncorrected hardware memory error)",
     .cause = "The node's main memory has an uncorrectable error",
     .remedy = "take the node out; ras-mc-ctl --summary or edac-util -v   # names the module"},

    // drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c and amdgpu_device.c.
    {.label = "ecc",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"uncorrectable hardware errors"},
     .pattern = R"(\b[1-9]\d* (?:new )?uncorrectable hardware errors detected in (\w+) block)",
     .cause = "An AMD GPU reported uncorrectable errors in its \\1 block",
     .remedy = "rocm-smi --showrasinfo all; dmesg -T | grep amdgpu   # drain the node, reset the "
               "GPU when it is idle"},
    {.label = "xid_gpu_hardware",
     .tier = Tier::kHardware,
     .weight = 56,
     .phrases = {"amdgpu: GPU reset(", "GPU Recovery Failed"},
     .pattern = R"(amdgpu: GPU reset\(\d+\) failed|amdgpu: GPU Recovery Failed)",
     .cause = "An AMD GPU stopped answering and could not be reset",
     .remedy = "drain the node, reboot it; dmesg -T | grep amdgpu, rocm-smi"},

    {.label = "xid_gsp",
     .tier = Tier::kHardware,
     .weight = 57,
     .phrases = {"GSP RM heartbeat", "RPC response from ", "GSP-RM ", "GSP firmware", "RPC from G",
                 "kgspBootstrap"},
     .pattern =
         R"(GSP RM heartbeat timed out|(?:waiting for|[Tt]imeout of) (?:a )?RPC (?:response )?from (?:GPU\d+ )?GSP|)"
         R"(GSP-RM[^\n]*(?:fail|error|halt|timed? ?out)|)"
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
