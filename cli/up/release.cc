#include "cli/up/release.h"

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/file_system.h"
#include "common/pki.h"

namespace launch::up {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// The machine of an ELF file as `uname -m` spells it; empty for anything else.
std::string ArchOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_machine == EM_X86_64) return "x86_64";
  return header.e_machine == EM_AARCH64 ? "aarch64" : "";
}

Result<Release> ReadRelease(const std::string& dir, bool head) {
  Release release;
  std::vector<std::string> names = {"launch-agent", "launch-shim"};
  if (head) names.insert(names.end(), {"launch", "launch-controller"});
  // For preflight's all-reduce by NCCL; a release that was built without nvcc has none.
  if (PathExists(dir + "/launch-nccl-test")) names.emplace_back("launch-nccl-test");
  std::string digests;
  for (const std::string& name : names) {
    const std::string path = dir + "/" + name;
    LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, PosixFileSystem().Read(path, kMostBytes));
    release.programs.push_back({name, path, Sha256Hex(bytes), bytes.size()});
    release.bytes += bytes.size();
    digests += release.programs.back().digest;
  }
  release.id = Sha256Hex(digests).substr(0, 16);
  return release;
}

}  // namespace

Result<Release> Releases::For(const std::string& arch, bool head) {
  const MutexLock lock(mutex_);
  const auto key = std::make_pair(arch, head);
  if (const auto found = found_.find(key); found != found_.end()) return found->second;
  for (const std::string& dir : dirs_) {
    if (ArchOf(dir + "/launch-agent") != arch) continue;
    LAUNCH_ASSIGN_OR_RETURN(Release release, ReadRelease(dir, head));
    return found_.emplace(key, std::move(release)).first->second;
  }
  return Fail(ErrorCode::kNotFound, "no programs for " + arch + " are here");
}

Result<std::string> ReadProgram(const Program& program) {
  LAUNCH_ASSIGN_OR_RETURN(std::string bytes, PosixFileSystem().Read(program.path, kMostBytes));
  if (Sha256Hex(bytes) != program.digest)
    return Fail(ErrorCode::kFailedPrecondition, program.path + " changed while it was read",
                "run this again");
  return bytes;
}

}  // namespace launch::up
