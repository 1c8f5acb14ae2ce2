#include "common/gpu_catalog.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/mig.h"
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

const std::vector<std::string> kFigureKeys = {
    "tflops",      "sms",       "tensor_mhz", "matmul_tflops", "memory_gib",
    "memory_gbps", "link_gbps", "pcie_gbps",  "c2c_gbps",      "nic_gbps"};

std::vector<std::string> WithFigureKeys(std::vector<std::string> keys) {
  keys.insert(keys.end(), kFigureKeys.begin(), kFigureKeys.end());
  return keys;
}

Result<GpuFigures> ReadFigures(const YamlMap& map) {
  GpuFigures figures;
  if (const YamlNode* tflops = map.Get("tflops")) {
    for (const auto& [key, value] : tflops->entries) {
      const auto rate = ParseDouble(value.scalar);
      if (!rate || *rate <= 0) return map.Bad(value, "tflops", "needs numbers above 0");
      figures.tflops[key.scalar] = *rate;
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto sms, map.Int("sms"));
  if (sms && (*sms <= 0 || *sms > 100000)) {
    return map.Bad(*map.Get("sms"), "sms", "needs a count above 0");
  }
  if (sms) figures.sms = static_cast<int>(*sms);
  const std::pair<const char*, std::optional<double>*> numbers[] = {
      {"tensor_mhz", &figures.tensor_mhz}, {"matmul_tflops", &figures.matmul_tflops},
      {"memory_gib", &figures.memory_gib}, {"memory_gbps", &figures.memory_gbps},
      {"link_gbps", &figures.link_gbps},   {"pcie_gbps", &figures.pcie_gbps},
      {"c2c_gbps", &figures.c2c_gbps},     {"nic_gbps", &figures.nic_gbps}};
  for (const auto& [key, value] : numbers) {
    LAUNCH_ASSIGN_OR_RETURN(*value, map.Double(key));
    const bool none_is_allowed = value == &figures.link_gbps;
    if (*value && (**value < 0 || (**value == 0 && !none_is_allowed))) {
      return map.Bad(*map.Get(key), key, "needs a number above 0");
    }
  }
  return figures;
}

void Overlay(GpuFigures& base, const GpuFigures& over) {
  for (const auto& [precision, rate] : over.tflops) base.tflops[precision] = rate;
  if (over.sms) base.sms = over.sms;
  if (over.tensor_mhz) base.tensor_mhz = over.tensor_mhz;
  if (over.matmul_tflops) base.matmul_tflops = over.matmul_tflops;
  if (over.memory_gib) base.memory_gib = over.memory_gib;
  if (over.memory_gbps) base.memory_gbps = over.memory_gbps;
  if (over.link_gbps) base.link_gbps = over.link_gbps;
  if (over.pcie_gbps) base.pcie_gbps = over.pcie_gbps;
  if (over.c2c_gbps) base.c2c_gbps = over.c2c_gbps;
  if (over.nic_gbps) base.nic_gbps = over.nic_gbps;
}

Result<GpuVariant> ReadVariant(const YamlNode& node, const std::string& file) {
  const YamlMap map(node, file, "gpus.variants");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(WithFigureKeys({"match"})));
  GpuVariant variant;
  LAUNCH_ASSIGN_OR_RETURN(variant.match, map.StringList("match"));
  if (variant.match.empty()) return map.Bad(node, "match", "needs at least one word");
  LAUNCH_ASSIGN_OR_RETURN(variant.figures, ReadFigures(map));
  return variant;
}

Result<GpuType> ReadType(const YamlNode& node, const std::string& file) {
  const YamlMap map(node, file, "gpus");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(WithFigureKeys(
      {"name", "aliases", "match", "exclude", "min_gib", "max_gib", "cc", "variants"})));
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
  LAUNCH_ASSIGN_OR_RETURN(auto cc, map.String("cc"));
  const auto version = cc ? ParseVersionPair(*cc) : std::nullopt;
  if (!version) return map.Bad(node, "cc", "needs a compute capability like \"8.0\"");
  type.cc = {version->major, version->minor};
  LAUNCH_ASSIGN_OR_RETURN(static_cast<GpuFigures&>(type), ReadFigures(map));
  if (const YamlNode* variants = map.Get("variants")) {
    for (const YamlNode& item : variants->items) {
      LAUNCH_ASSIGN_OR_RETURN(GpuVariant variant, ReadVariant(item, file));
      type.variants.push_back(std::move(variant));
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
  if (IsMigSlice(device)) return NamesSlice(wanted, device);
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

const GpuType* GpuCatalog::Find(std::string_view word, std::optional<double> memory_gib) const {
  const std::string folded = Folded(word);
  if (folded.empty()) return nullptr;
  // "80 GB" of a product name is 74.5 GiB: both readings must fall into the window.
  const auto fits = [&](const GpuType& type) {
    if (!memory_gib) return true;
    const auto inside = [&](double gib) {
      return (!type.min_gib || gib >= *type.min_gib) && (!type.max_gib || gib < *type.max_gib);
    };
    return inside(*memory_gib) || inside(*memory_gib * 1e9 / static_cast<double>(kGiB));
  };
  // The longest known word that the text begins with; a whole match is the longest there is.
  const GpuType* best = nullptr;
  std::size_t length = 0;
  for (const GpuType& type : types_) {
    std::vector<std::string> words = type.aliases;
    words.push_back(type.name);
    for (const std::string& known : words) {
      const std::string key = Folded(known);
      const bool starts = folded.compare(0, key.size(), key) == 0;
      // "A10" does not begin "A100": a digit may not follow a digit.
      const bool cut = starts && folded.size() > key.size() &&
                       std::isdigit(static_cast<unsigned char>(key.back())) != 0 &&
                       std::isdigit(static_cast<unsigned char>(folded[key.size()])) != 0;
      if (starts && !cut && key.size() > length && fits(type)) {
        best = &type;
        length = key.size();
      }
    }
  }
  if (best != nullptr && length == folded.size()) return best;
  const std::vector<std::string> tokens = TokensOf(word);
  for (const GpuType& type : types_) {
    const auto has = [&](const std::string& part) { return HasToken(tokens, part); };
    if (fits(type) && std::all_of(type.match.begin(), type.match.end(), has) &&
        std::none_of(type.exclude.begin(), type.exclude.end(), has)) {
      return &type;
    }
  }
  return best;
}

GpuType GpuCatalog::VariantOf(const GpuType& type, std::string_view name) {
  GpuType figures = type;
  const std::vector<std::string> tokens = TokensOf(name);
  for (const GpuVariant& variant : type.variants) {
    if (std::all_of(variant.match.begin(), variant.match.end(),
                    [&](const std::string& word) { return HasToken(tokens, word); })) {
      Overlay(figures, variant.figures);
    }
  }
  return figures;
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

std::optional<ComputeCapability> CapabilityOf(const GpuDevice& gpu) {
  if (gpu.cc) return gpu.cc;
  const GpuType* type = GpuCatalog::BuiltIn().TypeOf(gpu.model, gpu.memory_bytes);
  return type == nullptr ? std::nullopt : std::optional(type->cc);
}

}  // namespace launch
