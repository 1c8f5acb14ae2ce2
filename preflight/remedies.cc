#include "preflight/remedies.h"

#include <optional>
#include <string_view>
#include <utility>

#include "common/quoted.h"
#include "preflight/remedy_data.h"

namespace launch {
namespace {

std::string Python(const RuntimeFacts& runtime) {
  return ShellQuote(runtime.path.empty() ? "python" : runtime.path);
}

std::string Install(const RuntimeFacts& runtime, const WheelChannel& channel) {
  const std::string what = channel.until.empty() ? "torch" : "'torch<" + channel.until + "'";
  return Python(runtime) + " -m pip install --force-reinstall " + what + " --index-url " +
         RemedyData::BuiltIn().index() + channel.name;
}

std::string DriverOf(const NodeInventory& node) {
  return node.driver ? "this node has " + *node.driver : "this node's is not known";
}

// aarch64 had no CUDA wheels for years, and older releases still have none.
std::string ProcessorNote(const NodeInventory& node, const RuntimeFacts& runtime) {
  if (node.arch != Arch::kAarch64) return {};
  const WheelChannel* first = RemedyData::BuiltIn().FirstChannel(node.arch);
  if (first == nullptr) return {};
  const std::string& since = first->builds.at(node.arch).since;
  std::string text = " (aarch64 CUDA wheels start at torch " + since + ", channel " + first->name;
  if (runtime.torch && IsOlderRelease(runtime.torch->version, since)) {
    const std::string& version = runtime.torch->version;
    text += "; " + version.substr(0, version.find('+')) + " never had one";
  }
  return text + ")";
}

// CUDA 13 builds are what a careless install brings today: say whether they would run.
std::string NewestNote(const NodeInventory& node) {
  const RemedyData& data = RemedyData::BuiltIn();
  const auto driver = data.DriverFor(13);
  if (!driver) return {};
  const std::string number = std::to_string(*driver);
  return data.Runs(node, {13, 0})
             ? "; a CUDA 13 build runs here too, as the driver is at least driver " + number
             : "; a CUDA 13 build needs driver " + number + " or newer, " + DriverOf(node);
}

void AddWheel(const NodeInventory& node, const RuntimeFacts& runtime, RemedyText& remedy) {
  const RemedyData& data = RemedyData::BuiltIn();
  if (const WheelChannel* channel = data.ChannelFor(node)) {
    const std::string command = Install(runtime, *channel);
    remedy.text += "wheel: install a build from PyTorch's " + channel->name +
                   " channel: " + command + ProcessorNote(node, runtime) + NewestNote(node) + "\n";
    remedy.fix.push_back(command);
    return;
  }
  if (const WheelChannel* channel = data.ChannelAfterUpdate(node)) {
    const auto driver = data.DriverFor(channel->cuda.major);
    remedy.text += "driver: update the NVIDIA driver to " +
                   (driver ? "driver " + std::to_string(*driver) + " or newer" : "a newer one") +
                   ", " + DriverOf(node) + "; then " + Install(runtime, *channel) + "\n";
  }
}

std::optional<ComputeCapability> FirstCapability(const NodeInventory& node) {
  for (const GpuDevice& gpu : node.gpus) {
    if (gpu.device_class == DeviceClass::kCuda && gpu.cc) return gpu.cc;
  }
  return std::nullopt;
}

// A torch that is built with a newer CUDA than the driver's starts nowhere on that node.
std::string ToolkitToBuildWith(const NodeInventory& node) {
  if (!node.toolkit) return "a CUDA toolkit (none was found)";
  const auto nvcc = ParseVersionPair(node.toolkit->nvcc);
  if (nvcc && node.driver_cuda && nvcc->major > node.driver_cuda->major) {
    return "a CUDA " + std::to_string(node.driver_cuda->major) + " toolkit (that of the node is " +
           node.toolkit->nvcc + ", too new for its driver)";
  }
  return "a CUDA toolkit (" + node.toolkit->nvcc + " is there)";
}

void AddContainerAndSource(const NodeInventory& node, RemedyText& remedy) {
  const RemedyData& data = RemedyData::BuiltIn();
  remedy.text += "container: " + data.ImageFor(node) + " brings a torch with CUDA for " +
                 std::string(ToString(node.arch)) + "; it needs the " + data.container_needs() +
                 " on the node\n";
  remedy.text += "source: build torch with USE_CUDA=1";
  if (const auto cc = FirstCapability(node))
    remedy.text += " TORCH_CUDA_ARCH_LIST=" + ToString(*cc);
  remedy.text += "; hours, > " + std::to_string(data.source_disk_gb()) + " GB of disk, cuDNN and ";
  remedy.text += ToolkitToBuildWith(node) + "\n";
}

}  // namespace

RemedyText CudaTorch(const NodeInventory& node, const RuntimeFacts& runtime) {
  RemedyText remedy;
  AddWheel(node, runtime, remedy);
  AddContainerAndSource(node, remedy);
  remedy.text += "cpu: write device: cpu, which is slower";
  return remedy;
}

RemedyText OlderCudaTorch(const NodeInventory& node, const RuntimeFacts& runtime,
                          CudaVersion wanted) {
  RemedyText remedy;
  AddWheel(node, runtime, remedy);
  const auto driver = RemedyData::BuiltIn().DriverFor(wanted.major);
  remedy.text +=
      "driver: update the NVIDIA driver; CUDA " + std::to_string(wanted.major) +
      (driver ? " needs driver " + std::to_string(*driver) + " or newer" : " needs a newer one") +
      ", " + DriverOf(node) + "\n";
  remedy.text += "cpu: write device: cpu, which is slower";
  return remedy;
}

std::string InstallRelease(const RuntimeFacts& runtime, const std::string& package,
                           const std::string& version) {
  const std::size_t plus = version.find('+');
  std::string command =
      Python(runtime) + " -m pip install " + package + "==" + version.substr(0, plus);
  if (package == "torch" && plus != std::string::npos) {
    command += " --index-url " + RemedyData::BuiltIn().index() + version.substr(plus + 1);
  }
  return command;
}

RemedyText MatchingToolkit(CudaVersion torch_cuda) {
  const std::string command = RemedyData::BuiltIn().ToolkitCommand(torch_cuda);
  return {"toolkit: install CUDA " + ToString(torch_cuda) + " beside the system's: " + command +
              "; then env: {CUDA_HOME: $CONDA_PREFIX}, or CUDA_HOME of a toolkit that is there",
          {command}};
}

RemedyText RoomForState(const std::string& node) {
  return {"make room: df -h and df -i show which file system is full\nor set `state_dir` in " +
              node + "'s agent.yaml to a larger disk",
          {"df -h", "df -i"}};
}

}  // namespace launch
