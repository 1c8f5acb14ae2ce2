// Files that somebody else may have made, or changes while they are read: a named pipe in the place
// of a script, a line without end, a terabyte of zeros. Nothing here waits for a writer, takes
// anything but a regular file, or reads more than the caller asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch {

// Whether a link in the last place of a path leads on. kRefuse: where a process with more rights
// than the owner of the directory reads; a file that has another name besides is refused too.
enum class Links { kFollow, kRefuse };

// Opens a regular file for reading; never waits, as for the writer of a pipe. kInvalidArgument for
// what is no regular file; other errors as open(2) told them.
Result<UniqueFd> OpenRegular(const std::string& path, Links links = Links::kFollow);

// At most `most` bytes from offset `from` on; fewer at the end of the file or behind an error.
std::string ReadRange(int fd, std::uint64_t from, std::size_t most);

// At most the first `most` bytes of the file; empty when it cannot be read.
std::string ReadHead(const std::string& path, std::size_t most, Links links = Links::kFollow);

// The whole file. kInvalidArgument when it has more than `most` bytes: half of a file is no answer.
Result<std::string> ReadAll(const std::string& path, std::size_t most,
                            Links links = Links::kFollow);

}  // namespace launch
