// Reading of the kernel's small files: absent or unreadable is empty, never an error.
#pragma once

#include <string>
#include <vector>

namespace launch::agent {

std::string ReadSmallFile(const std::string& path);                // at most 64 KiB
std::string TrimmedFile(const std::string& path);                  // without white space at its end
std::vector<std::string> ListNames(const std::string& directory);  // sorted, without . and ..

}  // namespace launch::agent
