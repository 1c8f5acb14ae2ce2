// Where a text of bash stands while it is read, and the texts of files that it names from there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {

// Follows cd, pushd and popd from the job's directory on, by names as bash does.
class ShellPlace {
 public:
  ShellPlace() : ShellPlace(std::string()) {}
  explicit ShellPlace(std::string workdir);

  // Absolute, or relative where the job's directory is not known; empty: nobody knows.
  const std::string& directory() const { return directory_; }
  bool moved() const { return directory_ != start_; }
  // The file that a path means here; empty: not known.
  std::string Whole(const std::string& path) const;
  // The name under which a job keeps the text of that file: as written where the job starts, from
  // there in other directories; empty: not known.
  std::string NameOf(const std::string& path) const;
  // What `command` does to the place, and to PWD and OLDPWD in `known`. `certain`: it is executed.
  void Note(const ShellCommand& command, KnownVariables& known, bool certain = true);

 private:
  void Enter(std::string directory, KnownVariables& known);

  std::string start_;
  std::string directory_;
  std::vector<std::string> stack_;  // of pushd
};

// The path without "." and "..": "/a/./b/../c" -> "/a/c".
std::string NormalPath(const std::string& path);

// Texts that a job brought, and before them those that its own text writes, seen from one place.
class TextsAt {
 public:
  using Texts = std::map<std::string, std::string>;

  TextsAt() = default;
  TextsAt(const Texts& files, ShellPlace place = ShellPlace(), const Texts* own = nullptr)
      : files_(&files), own_(own), place_(std::move(place)) {}

  const std::string* Find(const std::string& written) const;

 private:
  const Texts* files_ = nullptr;
  const Texts* own_ = nullptr;
  ShellPlace place_;
};

}  // namespace launch
