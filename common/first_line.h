// What the kernel and others say in one line of a file.
#pragma once

#include <string>

namespace launch {

// Without its end, and 64 KiB at most; empty: there is none to read.
std::string FirstLine(const std::string& path);

// Of the running kernel; empty where it does not tell.
std::string KernelBootId();

}  // namespace launch
