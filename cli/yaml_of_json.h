// One document in two forms: `-o yaml` says what `-o json` does.
#pragma once

#include <string>

namespace launch {

// The document as YAML. Throws nlohmann::json::exception where the text is not JSON.
std::string YamlOfJson(const std::string& json);

}  // namespace launch
