#include "cli/up/release.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/pki.h"

namespace launch::up {
namespace {

Result<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in && !in.eof()) return FailErrno("read " + path, errno);
  if (bytes.empty()) return Fail(ErrorCode::kNotFound, path + " is missing");
  return bytes;
}

// The machine of an ELF file as `uname -m` spells it; empty for anything else.
std::string ArchOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_machine == EM_X86_64) return "x86_64";
  return header.e_machine == EM_AARCH64 ? "aarch64" : "";
}

}  // namespace

Result<Release> FindRelease(const std::vector<std::string>& dirs, const std::string& arch,
                            bool head) {
  for (const std::string& dir : dirs) {
    if (ArchOf(dir + "/launch-agent") != arch) continue;
    Release release;
    std::vector<std::string> names = {"launch-agent", "launch-shim"};
    if (head) names.insert(names.end(), {"launch", "launch-controller"});
    std::string digests;
    for (const std::string& name : names) {
      const std::string path = dir + "/" + name;
      LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(path));
      release.programs.push_back({name, path, Sha256Hex(bytes), bytes.size()});
      release.bytes += bytes.size();
      digests += release.programs.back().digest;
    }
    release.id = Sha256Hex(digests).substr(0, 16);
    return release;
  }
  return Fail(ErrorCode::kNotFound, "no programs for " + arch + " are here");
}

}  // namespace launch::up
