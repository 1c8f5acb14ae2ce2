// The rows of the environment table: names, rules and values.
#include <algorithm>
#include <string>

#include "common/mig.h"
#include "planner/model/strategy.h"
#include "planner/start/environment.h"
#include "planner/start/master_address.h"
#include "planner/trainer/debug_plan.h"
#include "planner/trainer/probe_plan.h"
#include "planner/trainer/trainer_configs.h"

namespace launch {
namespace {

using MaybeText = std::optional<std::string>;

const NodeShare& Node(const EnvFacts& f) { return f.layout.nodes[f.node]; }
std::string Digits(std::int64_t number) { return std::to_string(number); }
int RankOf(const EnvFacts& f) { return Node(f).first_rank + f.local_rank; }
bool Cuda(const EnvFacts& f) { return f.plan.device == DeviceClass::kCuda; }
bool Mps(const EnvFacts& f) { return f.plan.device == DeviceClass::kMps; }
bool Cpu(const EnvFacts& f) { return f.plan.device == DeviceClass::kCpu; }
bool Direct(const EnvFacts& f) { return f.plan.start == StartKind::kDirect && !f.alone; }
bool Together(const EnvFacts& f) { return f.layout.world_size > 1; }
MaybeText If(bool condition, std::string value) {
  return condition ? MaybeText(std::move(value)) : std::nullopt;
}
MaybeText Number(const std::optional<std::int64_t>& number) {
  return number ? MaybeText(Digits(*number)) : std::nullopt;
}

std::vector<int> GpusSeen(const EnvFacts& f) {
  const bool own = f.plan.start == StartKind::kDirect && f.spec.gpu_binding == GpuBinding::kPerRank;
  return own ? GpusOfRank(Node(f), f.local_rank) : Node(f).gpus;
}

MaybeText VisibleDevices(const EnvFacts& f) {
  if (Cpu(f)) return "";
  if (!Cuda(f)) return std::nullopt;
  const bool by_uuid = !WhyDevicesByUuid(*Node(f).inventory).empty();
  std::string list;
  for (int index : GpusSeen(f)) {
    const GpuDevice& gpu = Node(f).inventory->gpus[static_cast<std::size_t>(index)];
    list +=
        (list.empty() ? "" : ",") + (by_uuid || IsMigSlice(gpu) ? gpu.uuid.value : Digits(index));
  }
  return list;
}

MaybeText GpuIds(const EnvFacts& f) {
  if (!Cuda(f) || f.spec.gpu_ids.empty()) return std::nullopt;
  std::string list;
  for (int index : GpusSeen(f)) {
    const int id = GpuNumber(*Node(f).inventory, static_cast<std::size_t>(index));
    list += (list.empty() ? "" : ",") + Digits(id);
  }
  return list;
}

MaybeText ActivationCheckpointing(const EnvFacts& f) {
  if (!f.plan.checkpointing.empty()) return f.plan.checkpointing;
  const auto field = f.spec.model.fields.find("activation_checkpointing");
  if (field == f.spec.model.fields.end()) return std::nullopt;
  if (field->second == "true") return "full";
  if (field->second == "false") return "none";
  return field->second;
}

bool VariableLength(const EnvFacts& f) {
  const auto field = f.spec.model.fields.find("variable_length");
  return field != f.spec.model.fields.end() && field->second == "true";
}

MaybeText MasterAddress(const EnvFacts& f) { return MasterOf(f.layout).address; }
MaybeText Interface(const EnvFacts& f) {
  const std::string name = InterfaceOf(f.layout, f.node);
  return If(Together(f), name);
}

MaybeText NodeIps(const EnvFacts& f) {
  std::string list;
  for (const NodeShare& share : f.layout.nodes) {
    if (!list.empty()) list += '\n';
    list += AddressOf(*share.inventory);
  }
  return list;
}

bool Deepspeed(const EnvFacts& f) { return HasFile(f.plan, kDeepspeedFile); }
bool Plugins(const EnvFacts& f) { return ByAccelerate(f.plan.trainer); }
bool Fsdp(const EnvFacts& f) { return Plugins(f) && IsFsdp(f.plan.strategy); }

// A script that asks for no precision trains in the one of this variable: 16 bits that nobody asked
// for would change what it computes (docs/decisions/0008).
MaybeText MixedPrecision(const EnvFacts& f) {
  if (IsFullWidth(f.plan.precision)) return "no";
  const bool asked = f.spec.precision != Precision::kAuto || ByAccelerate(f.spec.trainer) ||
                     f.plan.trainer == Trainer::kAccelerate;
  const bool by_plan = Plugins(f) && (Deepspeed(f) || Fsdp(f));
  return If(asked || by_plan, std::string(ToString(f.plan.precision)));
}

// accelerate lets this variable win over the script's own Accelerator(...), and its launcher sets
// none by itself: a number of the line is for the line's launcher.
MaybeText PlannedAccumulation(const EnvFacts& f) {
  const BatchSpec& batch = f.spec.batch;
  const bool asked =
      f.spec.trainer == Trainer::kAccelerate || batch.global || batch.micro || batch.accumulate;
  if (f.plan.trainer != Trainer::kAccelerate || !asked) return std::nullopt;
  return Number(f.plan.batch.accumulate);
}

constexpr bool kOurs = false;  // not overridable
constexpr bool kYours = true;  // a value of the user wins

}  // namespace

std::string WhyDevicesByUuid(const NodeInventory& node) {
  if (node.gpu_subset) return "has some of its machine's GPUs only";
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const GpuDevice& gpu = node.gpus[i];
    if (IsMigSlice(gpu)) return "has a GPU that is cut into MIG slices";
    if (gpu.health != Health::kBad) continue;
    return "has an unhealthy GPU " + std::to_string(GpuNumber(node, i)) +
           (gpu.why.empty() ? "" : ": " + gpu.why);
  }
  return {};
}

const std::vector<EnvRule>& EnvironmentTable() {
  static const std::vector<EnvRule> table =
      {
          // clang-format off
      {"RANK", "torch", "ranks started directly", "global rank, from 0; this row and the others of ranks are left out for a lone process without a GPU whose script takes RANK for a run of several on GPUs", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(RankOf(f))); }},
      {"WORLD_SIZE", "torch", "ranks started directly", "ranks of the job", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(f.layout.world_size)); }},
      {"LOCAL_RANK", "torch", "ranks started directly", "rank on this node, from 0", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(f.local_rank)); }},
      {"LOCAL_WORLD_SIZE", "torch", "ranks started directly", "ranks on this node", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(Node(f).processes)); }},
      {"NODE_RANK", "torch", "always", "position of the node in the job, from 0", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Digits(static_cast<std::int64_t>(f.node)); }},
      {"GROUP_RANK", "torch", "ranks started directly", "the same, under torchrun's name", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(static_cast<std::int64_t>(f.node))); }},
      {"GROUP_WORLD_SIZE", "torch", "ranks started directly", "nodes of the job", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(static_cast<std::int64_t>(f.layout.nodes.size()))); }},
      {"ROLE_NAME", "torch", "ranks started directly", "`--role` of a torchrun line, or default", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), f.role); }},
      {"ROLE_RANK", "torch", "ranks started directly", "equal to RANK", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(RankOf(f))); }},
      {"ROLE_WORLD_SIZE", "torch", "ranks started directly", "equal to WORLD_SIZE", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(f.layout.world_size)); }},
      {"MASTER_ADDR", "torch", "always", "address of rank 0's node, proved reachable from every node of the job", kOurs, Known::kStart, MasterAddress},
      {"MASTER_PORT", "torch", "always", "port held for rank 0; a new one for each attempt", kOurs, Known::kStart,
       [](const EnvFacts&) -> MaybeText { return Digits(kProbablePort); }},

      {"NNODES", "torch", "run started once per node", "nodes of the job", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(!Direct(f), Digits(static_cast<std::int64_t>(f.layout.nodes.size()))); }},
      {"NPROC_PER_NODE", "torch", "run started once per node", "ranks that the launcher in it starts on this node", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(!Direct(f), Digits(Node(f).processes)); }},
      {"LAUNCH_START", "torch", "run started once per node", "node: a launcher inside `run` starts the ranks", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(!Direct(f), "node"); }},
      {"LAUNCH_WRAPPERS", "torch", "run started once per node, or a shell script", "directory of the torchrun, deepspeed and accelerate that hold a launcher inside `run` to the plan; first on PATH where it starts once per node", kOurs, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(f.wrappers, ""); }},

      {"TORCHELASTIC_RUN_ID", "elastic", "ranks started directly", "JOB-ATTEMPT", kOurs, Known::kAttempt,
       [](const EnvFacts& f) -> MaybeText {
         return If(Direct(f), f.key ? Digits(static_cast<std::int64_t>(f.key->job.value)) + "-" + Digits(f.key->attempt.value) : std::string("0-1")); }},
      {"TORCHELASTIC_RESTART_COUNT", "elastic", "ranks started directly", "attempts before this one", kOurs, Known::kAttempt,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(f.key ? std::int64_t{f.key->attempt.value} - 1 : 0)); }},
      {"TORCHELASTIC_MAX_RESTARTS", "elastic", "ranks started directly", "`retry.max`", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(f.spec.retry.max.value_or(0))); }},
      {"TORCHELASTIC_USE_AGENT_STORE", "elastic", "ranks started directly", "False: rank 0 itself hosts the store", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), "False"); }},
      {"TORCHELASTIC_ERROR_FILE", "elastic", "always", "where a script decorated with @record writes its error", kOurs, Known::kNode,
       [](const EnvFacts&) -> MaybeText { return ""; }},

      {"CROSS_RANK", "deepspeed", "ranks started directly", "equal to NODE_RANK, as DeepSpeed's launcher sets it", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(static_cast<std::int64_t>(f.node))); }},
      {"CROSS_SIZE", "deepspeed", "ranks started directly", "nodes of the job", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(static_cast<std::int64_t>(f.layout.nodes.size()))); }},
      {"LOCAL_SIZE", "deepspeed", "ranks started directly", "ranks on this node", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Direct(f), Digits(Node(f).processes)); }},

      {"CUDA_VISIBLE_DEVICES", "devices", "cuda, cpu", "all of the job's GPUs on this node, by PCI index, the same for every local rank (`gpu_binding: per_rank`: its own); by UUID for MIG slices, on a node with a lost or unhealthy GPU and for an agent that has some of its machine's GPUs only, where indices would be off; empty for `device: cpu`", kOurs, Known::kPlan, VisibleDevices},
      {"CUDA_DEVICE_ORDER", "devices", "cuda", "PCI_BUS_ID, so that indices mean what `launch nodes` shows", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f), "PCI_BUS_ID"); }},
      {"LAUNCH_GPU_IDS", "devices", "cuda with `gpu_ids`", "the numbers of these GPUs in `launch nodes NODE`, in the order of CUDA_VISIBLE_DEVICES", kOurs, Known::kPlan, GpuIds},
      {"PYTORCH_ENABLE_MPS_FALLBACK", "devices", "mps, cpu", "1 on mps: operators it lacks run on the CPU; 0 for `device: cpu`", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(!Cuda(f), Mps(f) ? "1" : "0"); }},
      {"ACCELERATE_USE_CPU", "devices", "cpu, unless DeepSpeed trains, which accelerate would leave aside", "true: accelerate forms a world of CPU ranks", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cpu(f) && !f.by_deepspeed, "true"); }},
      {"DS_ACCELERATOR", "devices", "cpu, where DeepSpeed trains", "cpu: its engine takes the host", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cpu(f) && f.by_deepspeed, "cpu"); }},

      {"GLOO_SOCKET_IFNAME", "network", "several ranks, not mps", "interface of the proven route to rank 0", kYours, Known::kStart, Interface},
      {"NCCL_SOCKET_IFNAME", "network", "several ranks on cuda", "interface of the proven route to rank 0", kYours, Known::kStart,
       [](const EnvFacts& f) -> MaybeText { return Cuda(f) ? Interface(f) : std::nullopt; }},
      {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "network", "several ranks on cuda, unless `hang.action: none`", "where that trace goes, for the verdict to read; torch adds the rank's number", kYours, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f) && Together(f) && f.spec.hang.action != HangAction::kNone, ""); }},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "network", "several ranks on cuda, unless `hang.action: none`", "1: collectives that hang leave a trace", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f) && Together(f) && f.spec.hang.action != HangAction::kNone, "1"); }},
      {"TORCH_NCCL_TRACE_BUFFER_SIZE", "network", "several ranks on cuda, unless `hang.action: none`", "collectives that the trace remembers", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f) && Together(f) && f.spec.hang.action != HangAction::kNone, "2000"); }},

      {"OMP_NUM_THREADS", "host", "always", "cores of the rank's share", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Digits(f.plan.processes.cpus_per_process); }},
      {"PYTHONUNBUFFERED", "host", "always", "1: output is not lost when a rank is killed", kYours, Known::kPlan,
       [](const EnvFacts&) -> MaybeText { return "1"; }},
      {"PYTHONFAULTHANDLER", "host", "always", "1: a crash in native code leaves a Python traceback", kYours, Known::kPlan,
       [](const EnvFacts&) -> MaybeText { return "1"; }},
      {"PYTORCH_ALLOC_CONF", "host", "cuda with `model.variable_length: true`", "expandable_segments:True, against fragmentation", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f) && VariableLength(f), "expandable_segments:True"); }},
      {"PYTORCH_CUDA_ALLOC_CONF", "host", "as PYTORCH_ALLOC_CONF", "its older name: some releases read only this one", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Cuda(f) && VariableLength(f), "expandable_segments:True"); }},

      {"LAUNCH_DEVICE", "plan", "always", "cuda, mps or cpu", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return std::string(ToString(f.plan.device)); }},
      {"LAUNCH_BACKEND", "plan", "always", "nccl on cuda, otherwise gloo", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Cuda(f) ? "nccl" : "gloo"; }},
      {"LAUNCH_STRATEGY", "plan", "always", "single, ddp, zero1 ... fsdp", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return std::string(ToString(f.plan.strategy)); }},
      {"LAUNCH_ZERO_STAGE", "plan", "strategy zero1-3", "1, 2 or 3", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(ZeroStage(f.plan.strategy) > 0, Digits(ZeroStage(f.plan.strategy))); }},
      {"LAUNCH_PRECISION", "plan", "always", "bf16, fp16, fp32, tf32 or fp8", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return std::string(ToString(f.plan.precision)); }},
      {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "plan", "precision tf32", "1: torch's products of fp32 matrices use the tensor cores", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(f.plan.precision == Precision::kTf32, "1"); }},
      {"ACCELERATE_MIXED_PRECISION", "plan", "fp32; a precision or trainer in the job, a line of accelerate, or a strategy that accelerate carries out", "the same in accelerate's words (no for fp32)", kYours, Known::kPlan, MixedPrecision},
      {"LAUNCH_GLOBAL_BATCH", "plan", "a batch is given", "samples of one optimizer step over all ranks", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Number(f.plan.batch.global); }},
      {"LAUNCH_MICRO_BATCH", "plan", "a batch is given", "samples of one rank's forward pass", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Number(f.plan.batch.micro); }},
      {"LAUNCH_GRAD_ACCUM", "plan", "a batch is given", "forward passes of one optimizer step", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Number(f.plan.batch.accumulate); }},
      {"LAUNCH_MAX_STEPS", "plan", "`submit --debug`, `plan --probe`", "optimizer steps after which the script should end", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(f.spec.debug, Digits(IsProbe(f.spec) ? kProbeSteps : kDebugSteps)); }},
      {"LAUNCH_SAVE_STEPS", "plan", "`submit --debug`, `plan --probe`", "steps between two checkpoints", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(f.spec.debug, Digits(kDebugSaveEvery)); }},
      {"LAUNCH_NUM_WORKERS", "plan", "always", "data loader workers of a rank", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return Digits(f.plan.loader.num_workers); }},
      {"LAUNCH_PIN_MEMORY", "plan", "always", "true or false", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return f.plan.loader.pin_memory ? "true" : "false"; }},
      {"LAUNCH_ACT_CKPT", "plan", "the plan decides it, or `model.activation_checkpointing` is given", "none, selective or full", kOurs, Known::kPlan, ActivationCheckpointing},
      {"LAUNCH_DS_CONFIG", "plan", "strategy zero1-3, unless the line brings its own file", "the generated ds_config.json", kOurs, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(Deepspeed(f), ""); }},
      {"LAUNCH_ACCELERATE_CONFIG", "plan", "`trainer: accelerate`", "the generated accelerate.yaml", kOurs, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(HasFile(f.plan, kAccelerateFile), ""); }},
      {"ACCELERATE_USE_DEEPSPEED", "plan", "trainer hf or accelerate, with LAUNCH_DS_CONFIG", "true: the trainer takes the plan's strategy without a flag", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Plugins(f) && Deepspeed(f), "true"); }},
      {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "plan", "as ACCELERATE_USE_DEEPSPEED", "the same file", kYours, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(Plugins(f) && Deepspeed(f), ""); }},
      {"ACCELERATE_USE_FSDP", "plan", "trainer hf or accelerate, strategy fsdp", "true: the trainer takes the plan's strategy without a flag", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f), "true"); }},
      {"FSDP_SHARDING_STRATEGY", "plan", "as ACCELERATE_USE_FSDP", "FULL_SHARD, SHARD_GRAD_OP or HYBRID_SHARD", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f), std::string(FsdpSharding(f.plan.strategy))); }},
      {"FSDP_AUTO_WRAP_POLICY", "plan", "as ACCELERATE_USE_FSDP, unless the line shards itself", "TRANSFORMER_BASED_WRAP", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f) && !f.own_fsdp, "TRANSFORMER_BASED_WRAP"); }},
      {"FSDP_OFFLOAD_PARAMS", "plan", "as ACCELERATE_USE_FSDP", "true with offload", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f), f.plan.offload == Offload::kNone ? "false" : "true"); }},
      {"FSDP_USE_ORIG_PARAMS", "plan", "as ACCELERATE_USE_FSDP", "true: parts of a block may be frozen", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f), "true"); }},
      {"FSDP_STATE_DICT_TYPE", "plan", "as ACCELERATE_USE_FSDP, unless the line shards itself", "SHARDED_STATE_DICT: every rank saves its part", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f) && !f.own_fsdp, "SHARDED_STATE_DICT"); }},
      {"FSDP_ACTIVATION_CHECKPOINTING", "plan", "as ACCELERATE_USE_FSDP", "true when the plan recomputes activations", kYours, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(Fsdp(f), f.plan.checkpointing == "full" ? "true" : "false"); }},
      {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "plan", "trainer accelerate and the job gives a batch", "as LAUNCH_GRAD_ACCUM", kYours, Known::kPlan, PlannedAccumulation},
      {"LAUNCH_PLAN_FILE", "plan", "always", "the plan's numbers as JSON", kOurs, Known::kNode,
       [](const EnvFacts&) -> MaybeText { return ""; }},

      {"LAUNCH_JOB_ID", "job", "always", "number of the job", kOurs, Known::kAttempt,
       [](const EnvFacts& f) -> MaybeText { return Digits(f.key ? static_cast<std::int64_t>(f.key->job.value) : 0); }},
      {"LAUNCH_JOB_NAME", "job", "always", "name of the job", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return f.spec.name; }},
      {"LAUNCH_ATTEMPT", "job", "always", "attempt, from 1", kOurs, Known::kAttempt,
       [](const EnvFacts& f) -> MaybeText { return Digits(f.key ? f.key->attempt.value : 1); }},
      {"LAUNCH_ARRAY_ID", "job", "elements of an array", "number of the array", kOurs, Known::kAttempt,
       [](const EnvFacts& f) -> MaybeText { return f.spec.element ? MaybeText(std::to_string(f.spec.element->array.value)) : std::nullopt; }},
      {"LAUNCH_ARRAY_INDEX", "job", "elements of an array", "index of this element", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return f.spec.element ? MaybeText(Digits(f.spec.element->index)) : std::nullopt; }},
      {"LAUNCH_NODE_IPS", "job", "always", "addresses of the nodes in node order, one a line", kOurs, Known::kStart, NodeIps},
      {"LAUNCH_HOSTFILE", "job", "always", "file of `NODE slots=N` lines", kOurs, Known::kNode,
       [](const EnvFacts&) -> MaybeText { return ""; }},
      {"LAUNCH_CHECKPOINT_DIR", "job", "`checkpoint.dir` is given", "the directory, expanded and absolute", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return If(!f.checkpoint_dir.empty(), f.checkpoint_dir); }},
      {"LAUNCH_RESUME_FROM", "job", "always", "newest complete checkpoint, or empty", kOurs, Known::kStart,
       [](const EnvFacts&) -> MaybeText { return ""; }},
      {"LAUNCH_STACKS", "job", "unless `hang.action: none`", "file that Python processes write their stacks to when the job hangs", kOurs, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(f.spec.hang.action != HangAction::kNone, ""); }},
      {"PYTHONPATH", "job", "unless `hang.action: none`", "your own, and in front of it the directory of a `sitecustomize` by which Python processes say where they stand and what GPU memory PyTorch has (one of your own runs as well)", kYours, Known::kNode,
       [](const EnvFacts& f) -> MaybeText { return If(f.spec.hang.action != HangAction::kNone, ""); }},
      {"LAUNCH_PROGRESS_FILE", "job", "always", "file for JSON lines {step, steps}", kOurs, Known::kNode,
       [](const EnvFacts&) -> MaybeText { return ""; }},
      {"LAUNCH_SUBMIT_DIR", "job", "always", "where the job was submitted", kOurs, Known::kPlan,
       [](const EnvFacts& f) -> MaybeText { return f.context.submit_dir; }},
          // clang-format on
      };
  return table;
}

}  // namespace launch
