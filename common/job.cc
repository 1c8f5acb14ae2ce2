#include "common/job.h"

#include "common/enum_text.h"

namespace launch {
namespace {

constexpr EnumText<LauncherKind, 7> kLauncher{{{LauncherKind::kAuto, "auto"},
                                               {LauncherKind::kProcess, "process"},
                                               {LauncherKind::kTorchrun, "torchrun"},
                                               {LauncherKind::kDeepspeed, "deepspeed"},
                                               {LauncherKind::kAccelerate, "accelerate"},
                                               {LauncherKind::kMpi, "mpi"},
                                               {LauncherKind::kNode, "node"}}};
constexpr EnumText<Strategy, 9> kStrategy{{{Strategy::kAuto, "auto"},
                                           {Strategy::kSingle, "single"},
                                           {Strategy::kDdp, "ddp"},
                                           {Strategy::kZero1, "zero1"},
                                           {Strategy::kZero2, "zero2"},
                                           {Strategy::kZero3, "zero3"},
                                           {Strategy::kFsdp, "fsdp"},
                                           {Strategy::kFsdpGradOp, "fsdp-grad-op"},
                                           {Strategy::kFsdpHybrid, "fsdp-hybrid"}}};
constexpr EnumText<Offload, 4> kOffload{{{Offload::kAuto, "auto"},
                                         {Offload::kNone, "none"},
                                         {Offload::kOptimizer, "optimizer"},
                                         {Offload::kAll, "all"}}};
constexpr EnumText<Precision, 6> kPrecision{{{Precision::kAuto, "auto"},
                                             {Precision::kBf16, "bf16"},
                                             {Precision::kFp16, "fp16"},
                                             {Precision::kFp32, "fp32"},
                                             {Precision::kFp8, "fp8"},
                                             {Precision::kTf32, "tf32"}}};
constexpr EnumText<DeviceChoice, 4> kDevice{{{DeviceChoice::kAuto, "auto"},
                                             {DeviceChoice::kCuda, "cuda"},
                                             {DeviceChoice::kMps, "mps"},
                                             {DeviceChoice::kCpu, "cpu"}}};
constexpr EnumText<Trainer, 6> kTrainer{{{Trainer::kAuto, "auto"},
                                         {Trainer::kHf, "hf"},
                                         {Trainer::kDeepspeed, "deepspeed"},
                                         {Trainer::kAccelerate, "accelerate"},
                                         {Trainer::kLightning, "lightning"},
                                         {Trainer::kPlain, "plain"}}};
constexpr EnumText<GpuBinding, 2> kBinding{
    {{GpuBinding::kAll, "all"}, {GpuBinding::kPerRank, "per_rank"}}};
constexpr EnumText<PreflightLevel, 3> kLevel{{{PreflightLevel::kNone, "none"},
                                              {PreflightLevel::kQuick, "quick"},
                                              {PreflightLevel::kFull, "full"}}};
constexpr EnumText<NetworkCheck, 3> kNetwork{{{NetworkCheck::kSkip, "skip"},
                                              {NetworkCheck::kWarn, "warn"},
                                              {NetworkCheck::kRequire, "require"}}};
constexpr EnumText<OnOom, 3> kOnOom{
    {{OnOom::kAuto, "auto"}, {OnOom::kReplan, "replan"}, {OnOom::kFail, "fail"}}};
constexpr EnumText<HangAction, 3> kHang{{{HangAction::kDiagnose, "diagnose"},
                                         {HangAction::kRestart, "restart"},
                                         {HangAction::kNone, "none"}}};

}  // namespace

LAUNCH_ENUM_TEXT(LauncherKind, ParseLauncherKind, kLauncher)
LAUNCH_ENUM_TEXT(Strategy, ParseStrategy, kStrategy)
LAUNCH_ENUM_TEXT(Offload, ParseOffload, kOffload)
LAUNCH_ENUM_TEXT(Precision, ParsePrecision, kPrecision)
LAUNCH_ENUM_TEXT(DeviceChoice, ParseDeviceChoice, kDevice)
LAUNCH_ENUM_TEXT(Trainer, ParseTrainer, kTrainer)
LAUNCH_ENUM_TEXT(GpuBinding, ParseGpuBinding, kBinding)
LAUNCH_ENUM_TEXT(PreflightLevel, ParsePreflightLevel, kLevel)
LAUNCH_ENUM_TEXT(NetworkCheck, ParseNetworkCheck, kNetwork)
LAUNCH_ENUM_TEXT(OnOom, ParseOnOom, kOnOom)
LAUNCH_ENUM_TEXT(HangAction, ParseHangAction, kHang)

}  // namespace launch
