// One JSON object of a config.json: sizes by any of their spellings, with the error that names
// them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/error.h"

namespace launch {

// The first error sticks, so that a reader asks once at the end.
class ConfigSection {
 public:
  using Names = std::initializer_list<const char*>;

  ConfigSection(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {}

  // First of the names that is there and not null; 0 when none is.
  std::int64_t Size(Names names) { return Whole(names, 1); }
  std::int64_t SizeOrZero(Names names) { return Whole(names, 0); }

  bool Has(const char* name) const { return Find(name) != nullptr; }
  std::optional<bool> Flag(Names names) const;
  std::string Text(const char* name) const;  // empty when it is no text
  std::size_t ListSize(const char* name) const;
  bool ListHas(const char* name, std::string_view part) const;  // a text with that part
  const nlohmann::json* Object(const char* name) const;

  const std::string& path() const { return path_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  const nlohmann::json* Find(const char* name) const;
  std::int64_t Whole(Names names, std::int64_t least);

  const nlohmann::json& object_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace launch
