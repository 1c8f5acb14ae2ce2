#include "tests/fakes/volatile_disk/volatile_disk.h"

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/error.h"
#include "common/unique_fd.h"
#include "tests/fakes/volatile_disk/platter.h"

namespace launch::testing {
namespace {

namespace fs = std::filesystem;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

UniqueFd OpenDir(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// `live`: where that directory is, when all names are taken; else empty.
void Restore(const std::string& platter, const std::string& id, const std::string& live,
             const std::string& into) {
  fs::create_directory(into);
  std::istringstream lines(live.empty() ? Read(platter + "/lists/" + id)
                                        : NamesIn(OpenDir(live).get()));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ', 2);
    const std::string inode = line.substr(2, space - 2);
    const std::string name = line.substr(space + 1);
    if (line[0] == kDirectory) {
      Restore(platter, inode, live.empty() ? "" : live + "/" + name, into + "/" + name);
    } else {
      WriteWhole(into + "/" + name, Read(platter + "/files/" + inode));
    }
  }
}

}  // namespace

VolatileDisk::VolatileDisk() {
  // Numbers of files are given once in memory, and nothing is slow there.
  const fs::path base = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  base_ = base / "launch-disk-XXXXXX";
  LAUNCH_CHECK(::mkdtemp(base_.data()) != nullptr, "make " + base_);
  root_ = base_ + "/disk";
  platter_ = root_ + ".platter";
  for (const std::string& made : {root_, platter_, platter_ + "/files", platter_ + "/lists"}) {
    fs::create_directory(made);
  }
}

VolatileDisk::~VolatileDisk() {
  std::error_code ignored;
  fs::remove_all(base_, ignored);
}

void VolatileDisk::LosePowerAtSync(int nth) const {
  WriteWhole(platter_ + "/syncs", std::to_string(nth));
}

bool VolatileDisk::HasPower() const { return Read(platter_ + "/syncs") != "0"; }

std::string VolatileDisk::AfterPowerLoss(Names names) const {
  const bool all = names == Names::kAll;
  const std::string into = base_ + (all ? "/all" : "/synced");
  Restore(platter_, InodeOf(OpenDir(root_).get()).id, all ? root_ : "", into);
  return into;
}

void VolatileDisk::Detach() const { fs::rename(platter_, base_ + "/detached"); }

}  // namespace launch::testing
