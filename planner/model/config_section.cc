#include "planner/model/config_section.h"

#include <algorithm>
#include <cmath>

#include "planner/model/model_card.h"

namespace launch {

std::optional<bool> ConfigSection::Flag(Names names) const {
  for (const char* name : names) {
    const nlohmann::json* value = Find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
  }
  return std::nullopt;
}

std::string ConfigSection::Text(const char* name) const {
  const nlohmann::json* value = Find(name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::size_t ConfigSection::ListSize(const char* name) const {
  const nlohmann::json* value = Find(name);
  return value != nullptr && value->is_array() ? value->size() : 0;
}

bool ConfigSection::ListHas(const char* name, std::string_view part) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr || !value->is_array()) return false;
  return std::any_of(value->begin(), value->end(), [&](const nlohmann::json& one) {
    return one.is_string() && one.get<std::string>().find(part) != std::string::npos;
  });
}

const nlohmann::json* ConfigSection::Object(const char* name) const {
  const nlohmann::json* value = Find(name);
  return value != nullptr && value->is_object() ? value : nullptr;
}

const nlohmann::json* ConfigSection::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t ConfigSection::Whole(Names names, std::int64_t least) {
  for (const char* name : names) {
    const nlohmann::json* value = Find(name);
    if (value == nullptr) continue;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (number >= static_cast<double>(least) && number <= static_cast<double>(kMaxLength) &&
        std::floor(number) == number)
      return static_cast<std::int64_t>(number);
    if (!error_)
      error_ = Error{ErrorCode::kInvalidArgument,
                     std::string(name) + " is " + value->dump(-1, ' ', true).substr(0, 40) +
                         ", not a whole number from " + std::to_string(least) + " to 1e9",
                     "", Where{path_, 0, 0, name}};
    return 0;
  }
  return 0;
}

}  // namespace launch
