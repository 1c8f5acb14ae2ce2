#include <cctype>

#include "cli/job_fields.h"
#include "common/constraint.h"
#include "common/mig.h"
#include "common/text.h"

namespace launch {
namespace {

constexpr std::int64_t kMaxNodes = 10000;
constexpr std::int64_t kMaxPerNode = 1024;
constexpr std::uint64_t kMaxCpus = 65'536;

Result<void> SetNodes(JobDraft& draft, const FieldValue& value) {
  const Result<std::string> written = value.Text();
  if (!written) return Unexpected(written.error());
  const std::string& text = *written;
  if (text == "auto")
    return value.BadItem(value.node(), "auto needs a deadline, which this version does not have",
                         "write a number, or a range such as 2..4");
  std::string low = text;
  std::string high = text;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    low = text.substr(0, dots);
    high = text.substr(dots + 2);
  } else if (const auto colon = text.find(':'); colon != std::string::npos) {
    low = text.substr(0, colon);
    high = text.substr(colon + 1);
  }
  const auto min = ParseInt(low);
  const auto max = ParseInt(high);
  if (!min || !max)
    return value.Bad("needs a number or a range such as 2..4, found `" + text + "`");
  if (*min < 1 || *max < *min || *max > kMaxNodes)
    return value.Bad("`" + text + "` is not a range of 1 to " + std::to_string(kMaxNodes) +
                     " nodes");
  draft.spec.nodes = {static_cast<int>(*min), static_cast<int>(*max), false};
  return {};
}

// "8", "H100", "H100:8", Slurm's "gpu:h100:8" and "gpu:8".
Result<GpuRequest> ReadGpus(const FieldValue& value, const YamlNode& at, std::string text) {
  if (text.starts_with("gpu:")) text.erase(0, 4);
  GpuRequest request;
  std::string count = text;
  if (const auto colon = text.rfind(':'); colon != std::string::npos) {
    request.model = text.substr(0, colon);
    count = text.substr(colon + 1);
    if (request.model.empty() || request.model.find(':') != std::string::npos)
      return value.BadItem(at, "needs NAME:N or N, found `" + text + "`",
                           "for memory use `constraints: \"gpu_mem>=40GB\"`");
  } else if (IsMigProfile(text) ||
             (!text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0)) {
    request.model = text;
    count = "1";
  }
  const auto number = ParseInt(count);
  if (!number || *number < 0 || *number > kMaxPerNode) {
    if (number && *number > kMaxPerNode)
      return value.BadItem(at, "is more than a node can have: " + std::to_string(kMaxPerNode));
    const bool ids = text.find_first_not_of("0123456789, ") == std::string::npos;
    return value.BadItem(at, "needs NAME:N or N, found `" + text + "`",
                         ids ? "devices by their numbers are gpu_ids: [" + text + "]" : "");
  }
  request.count = static_cast<int>(*number);
  return request;
}

Result<void> SetGpus(JobDraft& draft, const FieldValue& value) {
  std::vector<GpuRequest> requests;
  const YamlNode& node = value.node();
  if (node.kind == YamlNode::Kind::kMap) {  // SkyPilot: accelerators: {H100: 8}
    for (const auto& [key, count] : node.entries) {
      if (count.kind != YamlNode::Kind::kScalar)
        return value.BadItem(count, "needs a number for " + key.scalar);
      const bool slice = key.scalar == "mig";  // {mig: 1g.10gb}
      if (slice && !IsMigProfile(count.scalar.substr(0, count.scalar.find(':')))) {
        return value.BadItem(count, "`" + count.scalar + "` is no profile of MIG slices",
                             "mig: 1g.10gb; nvidia-smi mig -lgip lists those of a GPU");
      }
      LAUNCH_ASSIGN_OR_RETURN(
          GpuRequest request,
          ReadGpus(value, count, slice ? count.scalar : key.scalar + ":" + count.scalar));
      requests.push_back(std::move(request));
    }
  } else {
    LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, value.Texts());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const YamlNode& at = node.kind == YamlNode::Kind::kList ? node.items[i] : node;
      LAUNCH_ASSIGN_OR_RETURN(GpuRequest request, ReadGpus(value, at, texts[i]));
      requests.push_back(std::move(request));
    }
  }
  if (requests.empty()) return value.Bad("needs at least one kind of GPU, or 0");
  for (const GpuRequest& request : requests)
    if (request.count == 0 && requests.size() > 1)
      return value.Bad("0 cannot stand in a list of GPU kinds");
  draft.spec.gpus = std::move(requests);
  draft.spec.gpus_written = true;
  return {};
}

Result<void> SetProcs(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  if (text == "gpu" || text == "auto") {
    draft.spec.procs_per_node.reset();
    return {};
  }
  LAUNCH_ASSIGN_OR_RETURN(std::int64_t number, value.Integer(1, kMaxPerNode));
  draft.spec.procs_per_node = static_cast<int>(number);
  return {};
}

Result<void> SetGpuIds(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, value.Texts());
  std::vector<int> ids;
  for (const std::string& text : texts) {
    std::size_t start = 0;
    while (start <= text.size()) {
      const std::size_t comma = std::min(text.find(',', start), text.size());
      std::string word = text.substr(start, comma - start);
      while (!word.empty() && word.front() == ' ') word.erase(0, 1);
      const auto id = ParseInt(word);
      if (!id || *id < 0 || *id >= kMaxPerNode)
        return value.Bad("needs indices such as [1, 3], found `" + text + "`");
      for (const int other : ids)
        if (other == *id) return value.Bad("names " + word + " twice");
      ids.push_back(static_cast<int>(*id));
      start = comma + 1;
    }
  }
  draft.spec.gpu_ids = std::move(ids);
  return {};
}

Result<void> SetArch(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  draft.spec.arch = ParseArch(text);
  if (!draft.spec.arch && text != "any") return NotOneOf(value, text, {"any", "x86_64", "aarch64"});
  return {};
}

Result<void> SetConstraints(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  if (const auto parsed = Constraint::Parse(text); !parsed)
    return Unexpected(value.Place(parsed.error()));
  draft.spec.constraints = std::move(text);
  return {};
}

constexpr JobField kResourceFields[] = {
    {"name", "job-name job_name", "[a-z0-9._-]", "the file's name",
     "Name of the job in every table.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       for (const char c : text)
         if (std::islower(static_cast<unsigned char>(c)) == 0 &&
             std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-')
           return value.Bad("`" + text + "` may hold only a-z, 0-9, dot, underscore and dash");
       if (!IsValidName(text))
         return value.Bad("`" + text + "` is not a name of 1 to 63 characters");
       draft.spec.name = std::move(text);
       return {};
     }},
    {"nodes", "num_nodes nnodes num_machines numNodes", "N, N..M", "1",
     "How many nodes; a range is chosen at each start and fixed for that attempt.", SetNodes},
    {"gpus", "accelerators gpu gres gpus_per_node slots_per_trial", "N, NAME:N or a list",
     "1 where any node has one, else CPU",
     "GPUs per node; a list means any of these kinds, in order of preference; 0 is a CPU job. "
     "`{mig: 1g.10gb}` is one MIG slice.",
     SetGpus},
    {"total_gpus", "slots", "N", "unset", "GPUs over all nodes, for people who think in totals.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::int64_t number, value.Integer(1, 1000000));
       draft.spec.total_gpus = static_cast<int>(number);
       return {};
     }},
    {"gpu_ids", "", "list of N", "any free ones",
     "Particular devices on each node, by their numbers in `launch nodes NODE`: PCI order as "
     "nvidia-smi counts, on nodes with MIG too; of an agent that has a part of its machine's GPUs "
     "only, from 0 among those. Numbers in CUDA_VISIBLE_DEVICES of a launcher inside `run` are "
     "these "
     "too. A GPU that is cut into slices is asked for by `gpus` instead.",
     SetGpuIds},
    {"device", "", "auto | cuda | mps | cpu", "auto",
     "Kind of device; auto takes cuda, then mps, then cpu, and never serves a GPU request by a "
     "CPU.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       if (value.node().kind == YamlNode::Kind::kScalar && Lower(value.node().scalar) == "gpu") {
         return value.Bad("`gpu` is not one of auto, cuda, mps, cpu",
                          "cuda is an NVIDIA GPU, mps one of Apple; auto takes what there is");
       }
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.device,
                               Choice(value, ParseDeviceChoice, {"auto", "cuda", "mps", "cpu"}));
       return {};
     }},
    {"procs_per_node", "nproc_per_node numProcPerNode ntasks_per_node", "N or gpu", "gpu",
     "Processes per node; gpu means one per GPU.", SetProcs},
    {"cpus", "cpus_per_node", "N or N+",
     "a fair share of the node; without GPUs one for each process is reserved, and what else is "
     "free is used",
     "CPU cores per node; + means at least.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.cpus, value.AmountOf(draft, false));
       if (draft.spec.cpus->value > kMaxCpus)
         return value.Bad("is more than a node can have: " + std::to_string(kMaxCpus));
       return {};
     }},
    {"memory", "mem", "size or size+", "no limit of ours",
     "Host memory per node: request and limit; with + a request only.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.memory_bytes, value.AmountOf(draft, true));
       return {};
     }},
    {"shm_size", "", "size", "the node's", "Shared memory that must be there.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.shm_bytes, value.Bytes(draft));
       return {};
     }},
    {"disk", "disk_size", "size", "unset", "Free disk that must be there.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.disk_bytes, value.Bytes(draft));
       return {};
     }},
    {"arch", "", "any | x86_64 | aarch64", "any", "CPU architecture of the nodes.", SetArch},
    {"constraints", "constraint", "expression", "none",
     "What a node must satisfy: \"cc>=8.0 && driver>=550 && nvlink\".", SetConstraints},
    {"nodelist", "", "hostlist", "any", "Only these nodes: gpu[01-04].",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.nodelist, value.Hosts());
       return {};
     }},
    {"exclude_nodes", "exclude", "hostlist", "none", "None of these nodes: gpu[07,09].",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.exclude_nodes, value.Hosts());
       return {};
     }},
    {"priority", "", "0-100", "50", "Higher starts earlier.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::int64_t number, value.Integer(0, 100));
       draft.spec.priority = static_cast<int>(number);
       return {};
     }},
};

}  // namespace

std::span<const JobField> ResourceFields() { return kResourceFields; }

}  // namespace launch
