#include "planner/line/device_flags.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

enum class Means { kNothing, kDevices, kCount, kEither };

struct DeviceFlag {
  std::string_view name;  // with '_', without dashes
  Means means;
};

// kEither: a number is a count, numbers with commas are devices.
constexpr std::array<DeviceFlag, 17> kDeviceFlags = {{
    {"gpus", Means::kEither},
    {"devices", Means::kEither},
    {"gpu", Means::kDevices},
    {"gpu_id", Means::kDevices},
    {"gpu_ids", Means::kDevices},
    {"gpu_list", Means::kDevices},
    {"device", Means::kDevices},
    {"device_ids", Means::kDevices},
    {"cuda_device", Means::kDevices},
    {"cuda", Means::kDevices},
    {"gpuid", Means::kDevices},
    {"device_id", Means::kDevices},
    {"num_gpus", Means::kCount},
    {"n_gpus", Means::kCount},
    {"n_gpu", Means::kCount},
    {"ngpu", Means::kCount},
    {"num_devices", Means::kCount},
}};

// Flags of Lightning's Trainer, and those of latent-diffusion's main.py.
constexpr std::array<std::string_view, 10> kOfLightning = {
    "accelerator",  "strategy", "distributed_backend",     "num_nodes", "accumulate_grad_batches",
    "fast_dev_run", "base",     "check_val_every_n_epoch", "plugins",   "default_root_dir"};

// A word `--name value`, `--name=value` or `name=value`.
struct Setting {
  std::string name;
  std::string value;
  std::string shown;
  bool hydra = false;
};

bool IsDeviceNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The words behind a flag that count on, as a list: "--gpus 0 1 2 3", not "--gpus 4 10".
std::string ValueBehind(const std::vector<ShellWord>& words, std::size_t i) {
  if (i + 1 >= words.size() || words[i + 1].value.starts_with("--")) return {};
  std::string value = words[i + 1].value;
  for (std::size_t k = i + 2; IsDeviceNumber(words[i + 1].value) && k < words.size(); ++k) {
    const auto number = ParseInt(words[k].value);
    const auto before = ParseInt(words[k - 1].value);
    if (!number || !before || *number != *before + 1) break;
    value += "," + words[k].value;
  }
  return value;
}

std::optional<Setting> SettingAt(const std::vector<ShellWord>& words, std::size_t i) {
  std::string_view word = words[i].value;
  Setting setting;
  setting.hydra = !word.starts_with("--");
  while (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  const std::size_t equals = word.find('=');
  const bool glued = equals != std::string_view::npos;
  if (setting.hydra && (!glued || words[i].value.starts_with('-'))) return std::nullopt;
  setting.name = std::string(word.substr(0, equals));
  std::replace(setting.name.begin(), setting.name.end(), '-', '_');
  setting.value = glued ? std::string(word.substr(equals + 1)) : ValueBehind(words, i);
  setting.shown = words[i].value + (glued || setting.value.empty() ? "" : " " + setting.value);
  return setting;
}

bool SpeaksOfLightning(const Setting& one) {
  if (one.hydra) return one.name == "trainer" || one.name.starts_with("trainer.");
  return std::ranges::find(kOfLightning, one.name) != kOfLightning.end();
}

Means MeaningOf(const Setting& one) {
  const auto* const flag = std::ranges::find(kDeviceFlags, one.name, &DeviceFlag::name);
  if (flag == kDeviceFlags.end()) return Means::kNothing;
  return flag->means;
}

// Absent: none, one device, or what is not a number of devices.
std::optional<int> CountOf(const Setting& one) {
  const Means means = MeaningOf(one);
  if (means == Means::kNothing) return std::nullopt;
  const bool list = one.value.find(',') != std::string::npos || one.value.starts_with('[');
  if (list) return means == Means::kCount ? std::nullopt : DevicesInList(one.value);
  if (means == Means::kDevices) return std::nullopt;
  if (one.value == "-1" || one.value == "auto") return 0;
  const auto number = ParseInt(one.value);
  if (!number || *number < 1 || *number > 4096) return std::nullopt;
  return static_cast<int>(*number);
}

std::string_view WithoutCuda(std::string_view value) {
  if (value.starts_with("cuda:")) value.remove_prefix(5);
  return value;
}

}  // namespace

std::optional<GivenDevice> DeviceGivenIn(const std::vector<ShellWord>& words) {
  constexpr std::string_view kOfLists = "0123456789,";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto setting = SettingAt(words, i);
    if (!setting || MeaningOf(*setting) != Means::kDevices) continue;
    const std::string_view value = WithoutCuda(setting->value);
    const bool numbers =
        !value.empty() && value.find_first_not_of(kOfLists) == std::string_view::npos;
    if (numbers || value.starts_with('$')) return GivenDevice{setting->shown, std::string(value)};
  }
  return std::nullopt;
}

std::optional<int> DevicesInList(std::string_view value) {
  value = WithoutCuda(value);
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  int count = 0;
  const std::vector<std::string_view> items = Split(value, ',');
  for (const std::string_view& one : items) {
    const std::string_view item = Trim(one);
    if (item.empty() && &one == &items.back()) break;
    if (!IsDeviceNumber(item)) return std::nullopt;
    ++count;
  }
  return count > 0 ? std::optional(count) : std::nullopt;
}

std::optional<NamedDevices> DevicesNamedIn(const std::vector<ShellWord>& arguments,
                                           bool lightning) {
  std::optional<NamedDevices> found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // "[0,1]" is a pattern of bash that no file has.
    const bool written = arguments[i].raw.find_first_of("$`") == std::string::npos;
    const auto setting = written ? SettingAt(arguments, i) : std::nullopt;
    if (!setting) continue;
    // A run on the CPU is split by the same flags.
    if (setting->name == "accelerator" && setting->value == "cpu") return std::nullopt;
    lightning = lightning || SpeaksOfLightning(*setting);
    const auto count = CountOf(*setting);
    if (count && (!found || *count > found->count)) found = {setting->shown, *count};
  }
  if (found) {
    const bool trainer = found->flag.find("gpus") != std::string::npos ||
                         found->flag.find("devices") != std::string::npos;
    found->of_lightning = lightning && trainer;
  }
  return found;
}

}  // namespace launch
