// One document in two forms: `-o yaml` says what `-o json` does.
#pragma once

#include <string>

namespace launch {

// Throws nlohmann::json::exception where the text is no JSON.
std::string YamlOfJson(const std::string& json);

}  // namespace launch
