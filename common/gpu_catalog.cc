#include "common/gpu_catalog.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {

extern const std::string_view kGpusYaml;  // configs/gpus.yaml, embedded by the build

namespace {

// "NVIDIA H100 80GB HBM3" -> nvidia, h100, 80gb, hbm3.
std::vector<std::string> TokensOf(std::string_view name) {
  std::vector<std::string> tokens;
  bool open = false;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      open = false;
      continue;
    }
    if (!open) tokens.emplace_back();
    open = true;
    tokens.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return tokens;
}

std::string Folded(std::string_view name) {
  std::string folded;
  for (const std::string& token : TokensOf(name)) folded += token;
  return folded;
}

bool HasToken(const std::vector<std::string>& tokens, const std::string& word) {
  return std::find(tokens.begin(), tokens.end(), Folded(word)) != tokens.end();
}

// Whole words of the name in a row: "RTX 4090" and "rtx4090" mean "NVIDIA GeForce RTX 4090", but
// "A10" does not mean "NVIDIA A100".
bool NamesPartOf(const std::string& wanted, const std::vector<std::string>& tokens) {
  for (std::size_t first = 0; first < tokens.size(); ++first) {
    std::string joined;
    for (std::size_t i = first; i < tokens.size() && joined.size() < wanted.size(); ++i) {
      joined += tokens[i];
      if (joined == wanted) return true;
    }
  }
  return false;
}

Result<GpuType> ReadType(const YamlNode& node, const std::string& file) {
  const YamlMap map(node, file, "gpus");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly({"name", "aliases", "match", "exclude", "min_gib", "max_gib",
                                        "cc", "tflops", "memory_gbps", "link_gbps"}));
  GpuType type;
  LAUNCH_ASSIGN_OR_RETURN(auto name, map.String("name"));
  if (!name || name->empty()) return map.Bad(node, "name", "a class of GPUs needs a name");
  type.name = *name;
  LAUNCH_ASSIGN_OR_RETURN(type.aliases, map.StringList("aliases"));
  LAUNCH_ASSIGN_OR_RETURN(type.match, map.StringList("match"));
  LAUNCH_ASSIGN_OR_RETURN(type.exclude, map.StringList("exclude"));
  if (type.match.empty()) return map.Bad(node, "match", "needs at least one word");
  LAUNCH_ASSIGN_OR_RETURN(type.min_gib, map.Double("min_gib"));
  LAUNCH_ASSIGN_OR_RETURN(type.max_gib, map.Double("max_gib"));
  LAUNCH_ASSIGN_OR_RETURN(type.memory_gbps, map.Double("memory_gbps"));
  LAUNCH_ASSIGN_OR_RETURN(type.link_gbps, map.Double("link_gbps"));
  LAUNCH_ASSIGN_OR_RETURN(auto cc, map.String("cc"));
  const auto version = cc ? ParseVersionPair(*cc) : std::nullopt;
  if (!version) return map.Bad(node, "cc", "needs a compute capability like \"8.0\"");
  type.cc = {version->major, version->minor};
  if (const YamlNode* tflops = map.Get("tflops")) {
    for (const auto& [key, value] : tflops->entries) {
      const auto rate = ParseDouble(value.scalar);
      if (!rate || *rate <= 0) return map.Bad(value, "tflops", "needs numbers above 0");
      type.tflops[key.scalar] = *rate;
    }
  }
  return type;
}

}  // namespace

Result<GpuCatalog> GpuCatalog::Parse(std::string_view yaml, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, file));
  const YamlMap map(root, file, "");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly({"gpus"}));
  const YamlNode* list = map.Get("gpus");
  if (list == nullptr || list->kind != YamlNode::Kind::kList) {
    return map.Bad(root, "gpus", "needs a list of classes");
  }
  GpuCatalog catalog;
  for (const YamlNode& item : list->items) {
    LAUNCH_ASSIGN_OR_RETURN(GpuType type, ReadType(item, file));
    catalog.types_.push_back(std::move(type));
  }
  return catalog;
}

const GpuCatalog& GpuCatalog::BuiltIn() {
  static const GpuCatalog catalog = [] {
    auto parsed = Parse(kGpusYaml, "configs/gpus.yaml");
    LAUNCH_CHECK(parsed.has_value(), FormatError(parsed.error()));
    return std::move(*parsed);
  }();
  return catalog;
}

const GpuType* GpuCatalog::TypeOf(std::string_view driver_name, std::uint64_t memory_bytes) const {
  const std::vector<std::string> tokens = TokensOf(driver_name);
  const double gib = static_cast<double>(memory_bytes) / static_cast<double>(kGiB);
  for (const GpuType& type : types_) {
    if (type.min_gib && gib < *type.min_gib) continue;
    if (type.max_gib && gib >= *type.max_gib) continue;
    const bool matches =
        std::all_of(type.match.begin(), type.match.end(),
                    [&](const std::string& word) { return HasToken(tokens, word); }) &&
        std::none_of(type.exclude.begin(), type.exclude.end(),
                     [&](const std::string& word) { return HasToken(tokens, word); });
    if (matches) return &type;
  }
  return nullptr;
}

bool GpuCatalog::Matches(std::string_view wanted, const GpuDevice& device) const {
  const std::string word = Folded(wanted);
  if (word.empty()) return true;
  if (word == ToString(device.device_class)) return true;
  const GpuType* type = nullptr;
  for (const GpuType& known : types_) {
    if (!device.type.empty() && known.name == device.type) type = &known;
  }
  if (type == nullptr) type = TypeOf(device.model, device.memory_bytes);
  if (type != nullptr) {
    if (Folded(type->name) == word) return true;
    for (const std::string& alias : type->aliases) {
      if (Folded(alias) == word) return true;
    }
  } else if (!device.type.empty() && Folded(device.type) == word) {
    return true;
  }
  // A word that is the name of a class means just that class: "A100-80GB" never means a 40 GB part
  // whose name happens to hold the words.
  for (const GpuType& other : types_) {
    if (Folded(other.name) == word && type != nullptr) return false;
  }
  return NamesPartOf(word, TokensOf(device.model));
}

std::vector<std::string> GpuCatalog::Names() const {
  std::vector<std::string> names;
  for (const GpuType& type : types_) {
    names.push_back(type.name);
    for (const std::string& alias : type.aliases) {
      if (std::find(names.begin(), names.end(), alias) == names.end()) names.push_back(alias);
    }
  }
  return names;
}

}  // namespace launch
