// Archives of regular files: the ustar form that every `tar` reads.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace launch {

using TarEntries = std::vector<std::pair<std::string, std::string>>;  // name and bytes, in order

// Names: relative, at most 100 bytes. Modes are 0600, owners root, times 0.
std::string MakeTar(const TarEntries& entries);

bool LooksLikeTar(std::string_view bytes);  // by the first 512 bytes

// Regular files only; kDataLoss names what is cut off or does not match its checksum.
Result<TarEntries> ReadTar(std::string_view bytes);

}  // namespace launch
