// Where a git repository lies and which commit it is at, from its files alone: nothing is run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace launch {

struct GitRepository {
  std::filesystem::path root;    // of the working tree
  std::filesystem::path own;     // .git: index and HEAD; a linked working tree has one of its own
  std::filesystem::path common;  // objects, references, info/exclude
  std::string commit;            // empty = none yet
};

// The repository whose working tree has `root` as its top.
std::optional<GitRepository> GitRepositoryAt(const std::filesystem::path& root);

// The repository whose working tree `directory` lies in.
std::optional<GitRepository> GitRepositoryAround(const std::filesystem::path& directory);

}  // namespace launch
