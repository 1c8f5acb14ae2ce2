#include "preflight/remedy_data.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/units.h"
#include "common/yaml_reader.h"
#include "preflight/kernels.h"

namespace launch {

extern const std::string_view kRemediesYaml;  // configs/remedies.yaml, embedded by the build

namespace {

// A text that must be there.
Result<std::string> Word(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const auto text, map.String(key));
  if (!text || text->empty()) return map.Bad(map.node(), key, "is missing");
  return *text;
}

Result<CudaVersion> Version(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, Word(map, key));
  const auto version = ParseVersionPair(text);
  if (!version) return map.Bad(map.node(), key, "'" + text + "' is not a version");
  return *version;
}

// Calls read(map of the item) for each entry of the list `key`.
template <class Read>
Result<void> Each(const YamlMap& map, std::string_view key, Read read) {
  const YamlNode* list = map.Get(key);
  if (list == nullptr || list->kind != YamlNode::Kind::kList) {
    return map.Bad(map.node(), key, "needs a list");
  }
  for (const YamlNode& item : list->items) {
    LAUNCH_RETURN_IF_ERROR(read(YamlMap(item, map.file(), std::string(key))));
  }
  return {};
}

Result<YamlMap> Inside(const YamlMap& map, std::string_view key) {
  const YamlNode* node = map.Get(key);
  if (node == nullptr || node->kind != YamlNode::Kind::kMap) {
    return map.Bad(map.node(), key, "needs a map");
  }
  return YamlMap(*node, map.file(), std::string(key));
}

Result<WheelChannel> ReadChannel(const YamlMap& map) {
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly({"name", "cuda", "until", "x86_64", "aarch64"}));
  WheelChannel channel;
  LAUNCH_ASSIGN_OR_RETURN(channel.name, Word(map, "name"));
  LAUNCH_ASSIGN_OR_RETURN(channel.cuda, Version(map, "cuda"));
  LAUNCH_ASSIGN_OR_RETURN(const auto until, map.String("until"));
  channel.until = until.value_or("");
  for (const Arch arch : {Arch::kX86_64, Arch::kAarch64}) {
    if (map.Get(ToString(arch)) == nullptr) continue;
    LAUNCH_ASSIGN_OR_RETURN(const YamlMap build, Inside(map, ToString(arch)));
    LAUNCH_RETURN_IF_ERROR(build.AllowOnly({"since", "archs"}));
    WheelChannel::Build& known = channel.builds[arch];
    LAUNCH_ASSIGN_OR_RETURN(known.since, Word(build, "since"));
    LAUNCH_ASSIGN_OR_RETURN(known.archs, build.StringList("archs"));
  }
  return channel;
}

}  // namespace

bool IsOlderRelease(std::string_view version, std::string_view than) {
  const auto numbers = [](std::string_view text) {
    std::vector<std::int64_t> parts;
    text = text.substr(0, text.find_first_not_of("0123456789."));
    while (!text.empty()) {
      const std::size_t dot = std::min(text.find('.'), text.size());
      parts.push_back(ParseInt(text.substr(0, dot)).value_or(0));
      text.remove_prefix(std::min(dot + 1, text.size()));
    }
    parts.resize(std::max<std::size_t>(parts.size(), 3));
    return parts;
  };
  return numbers(version) < numbers(than);
}

Result<RemedyData> RemedyData::Parse(std::string_view yaml, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, file));
  const YamlMap map(root, file, "");
  LAUNCH_RETURN_IF_ERROR(
      map.AllowOnly({"wheels", "drivers", "container", "source", "deepspeed_accepts", "toolkit"}));
  RemedyData data;
  LAUNCH_ASSIGN_OR_RETURN(const YamlMap wheels, Inside(map, "wheels"));
  LAUNCH_ASSIGN_OR_RETURN(data.index_, Word(wheels, "index"));
  LAUNCH_RETURN_IF_ERROR(Each(wheels, "channels", [&](const YamlMap& item) -> Result<void> {
    LAUNCH_ASSIGN_OR_RETURN(WheelChannel channel, ReadChannel(item));
    data.channels_.push_back(std::move(channel));
    return {};
  }));
  LAUNCH_ASSIGN_OR_RETURN(const YamlMap drivers, Inside(map, "drivers"));
  for (const auto& [major, driver] : drivers.node().entries) {
    const auto key = ParseInt(major.scalar);
    const auto value = ParseInt(driver.scalar);
    if (!key || !value) return drivers.Bad(driver, major.scalar, "needs two whole numbers");
    data.drivers_[static_cast<int>(*key)] = static_cast<int>(*value);
  }
  LAUNCH_ASSIGN_OR_RETURN(const YamlMap container, Inside(map, "container"));
  LAUNCH_ASSIGN_OR_RETURN(data.image_, Word(container, "image"));
  LAUNCH_ASSIGN_OR_RETURN(data.container_needs_, Word(container, "needs"));
  LAUNCH_RETURN_IF_ERROR(Each(container, "tags", [&](const YamlMap& item) -> Result<void> {
    ContainerTag tag;
    LAUNCH_ASSIGN_OR_RETURN(tag.tag, Word(item, "tag"));
    LAUNCH_ASSIGN_OR_RETURN(tag.cuda, Version(item, "cuda"));
    data.tags_.push_back(std::move(tag));
    return {};
  }));
  LAUNCH_ASSIGN_OR_RETURN(const YamlMap source, Inside(map, "source"));
  LAUNCH_ASSIGN_OR_RETURN(const auto disk, source.Int("disk_gb"));
  data.source_disk_gb_ = static_cast<int>(disk.value_or(0));
  LAUNCH_ASSIGN_OR_RETURN(const auto accepts, map.StringList("deepspeed_accepts"));
  for (const std::string& text : accepts) {
    const auto version = ParseVersionPair(text);
    if (!version) return map.Bad(root, "deepspeed_accepts", "'" + text + "' is not a version");
    data.deepspeed_accepts_.push_back(*version);
  }
  LAUNCH_ASSIGN_OR_RETURN(const YamlMap toolkit, Inside(map, "toolkit"));
  LAUNCH_ASSIGN_OR_RETURN(data.toolkit_install_, Word(toolkit, "install"));
  return data;
}

const RemedyData& RemedyData::BuiltIn() {
  static const RemedyData data = [] {
    auto parsed = Parse(kRemediesYaml, "configs/remedies.yaml");
    LAUNCH_CHECK(parsed.has_value(), FormatError(parsed.error()));
    return std::move(*parsed);
  }();
  return data;
}

const WheelChannel* RemedyData::Find(const NodeInventory& node, bool any_driver) const {
  for (const WheelChannel& channel : channels_) {
    const auto build = channel.builds.find(node.arch);
    if (build == channel.builds.end()) continue;
    if (!any_driver && !Runs(node, channel.cuda)) continue;
    const bool covers = std::all_of(node.gpus.begin(), node.gpus.end(), [&](const GpuDevice& gpu) {
      return gpu.device_class != DeviceClass::kCuda || !gpu.cc ||
             KernelsFor(build->second.archs, *gpu.cc) != Kernels::kNone;
    });
    if (covers) return &channel;
  }
  return nullptr;
}

const WheelChannel* RemedyData::ChannelFor(const NodeInventory& node) const {
  return Find(node, false);
}

const WheelChannel* RemedyData::ChannelAfterUpdate(const NodeInventory& node) const {
  return Find(node, true);
}

const WheelChannel* RemedyData::Channel(std::string_view name) const {
  const auto found = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const WheelChannel& c) { return c.name == name; });
  return found == channels_.end() ? nullptr : &*found;
}

const WheelChannel* RemedyData::FirstChannel(Arch arch) const {
  const WheelChannel* first = nullptr;
  for (const WheelChannel& channel : channels_) {
    const auto build = channel.builds.find(arch);
    if (build == channel.builds.end()) continue;
    if (first == nullptr ||
        IsOlderRelease(build->second.since, first->builds.find(arch)->second.since)) {
      first = &channel;
    }
  }
  return first;
}

std::optional<int> RemedyData::DriverFor(int cuda_major) const {
  const auto found = drivers_.find(cuda_major);
  return found == drivers_.end() ? std::nullopt : std::optional<int>(found->second);
}

bool RemedyData::Runs(const NodeInventory& node, CudaVersion cuda) const {
  if (node.driver_cuda) return node.driver_cuda->major >= cuda.major;
  const auto driver = node.driver ? ParseVersionPair(*node.driver) : std::nullopt;
  const auto needed = DriverFor(cuda.major);
  return !driver || !needed || driver->major >= *needed;
}

std::string RemedyData::ImageFor(const NodeInventory& node) const {
  for (const ContainerTag& tag : tags_) {
    if (!node.driver_cuda || tag.cuda <= *node.driver_cuda) return image_ + ":" + tag.tag;
  }
  return image_;
}

bool RemedyData::DeepspeedAccepts(CudaVersion toolkit) const {
  return std::find(deepspeed_accepts_.begin(), deepspeed_accepts_.end(), toolkit) !=
         deepspeed_accepts_.end();
}

bool RemedyData::DeepspeedKnowsMajor(int major) const {
  return std::any_of(deepspeed_accepts_.begin(), deepspeed_accepts_.end(),
                     [&](CudaVersion version) { return version.major == major; });
}

std::string RemedyData::ToolkitCommand(CudaVersion version) const {
  std::string text = toolkit_install_;
  const std::size_t at = text.find("VERSION");
  if (at != std::string::npos) text.replace(at, 7, ToString(version));
  return text;
}

}  // namespace launch
