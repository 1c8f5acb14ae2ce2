// Whether what is written below a directory stays on this machine.
#pragma once

#include <string>

namespace launch::agent {

// PathFact::what of a checkpoint directory that stays here.
inline constexpr const char* kLocalDisk = "local_disk";

// True where the file system of `path`, or of the nearest directory above it that is there, is
// known to be on a disk or in the memory of this machine, and `exports` (nfsd's table of what it
// serves) has nothing around it: other nodes may see under the same path what this one serves.
bool StaysHere(const std::string& path, const std::string& exports = "/var/lib/nfs/etab");

}  // namespace launch::agent
