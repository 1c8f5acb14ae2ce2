#include "agent/probes/small_files.h"

#include <algorithm>
#include <filesystem>

#include "common/foreign_file.h"

namespace launch::agent {

std::string ReadSmallFile(const std::string& path) { return ReadHead(path, 64 * 1024); }

std::string TrimmedFile(const std::string& path) {
  std::string text = ReadSmallFile(path);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::vector<std::string> ListNames(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace launch::agent
