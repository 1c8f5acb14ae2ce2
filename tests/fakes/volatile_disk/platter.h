// What a VolatileDisk with the root ROOT keeps of it, in the directory ROOT.platter:
//   files/ID  what that file held at its last sync
//   lists/ID  the names in that directory at its last sync, each a line "KIND ID NAME"
//   syncs     how many more are made before the power is lost; no such file: all
//   lock      held for one sync
#pragma once

#include <string>

namespace launch::testing {

inline constexpr char kFile = 'f';
inline constexpr char kDirectory = 'd';

// Of the file `name` in a directory, or of what the descriptor itself names; empty: it is gone.
struct Inode {
  std::string id;  // never another file's, although the kernel gives numbers again
  char kind = 0;   // 0: a pipe or a link, of which nothing is kept
};
Inode InodeOf(int fd, const std::string& name = "");

std::string NamesIn(int dir_fd);  // as in lists/ID
std::string ReadWhole(int fd);
void WriteWhole(const std::string& path, const std::string& bytes);  // all of it or nothing

}  // namespace launch::testing
