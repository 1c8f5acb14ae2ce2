#include "controller/store/revision_witness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/pki.h"
#include "common/units.h"

namespace launch::controller {
namespace {

// "ID REVISION SUM\n": 32, 20 and 8 characters.
constexpr std::size_t kSize = 32 + 1 + 20 + 1 + 8 + 1;
constexpr std::size_t kSummed = 32 + 1 + 20;

std::string Spell(const RevisionWitness::Seen& seen) {
  std::array<char, 21> number{};
  std::snprintf(number.data(), number.size(), "%020llu",
                static_cast<unsigned long long>(seen.revision));
  std::string text = seen.store_id + " " + number.data();
  std::array<char, 9> sum{};
  std::snprintf(sum.data(), sum.size(), "%08x", Crc32c(text));
  return text + " " + sum.data() + "\n";
}

}  // namespace

Result<RevisionWitness> RevisionWitness::Open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailErrno("open " + path, errno);
  struct stat made {};
  if (::fstat(file.get(), &made) == 0 && made.st_size == 0) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    const UniqueFd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) (void)::fsync(directory.get());
  }
  return RevisionWitness(std::move(file));
}

std::optional<RevisionWitness::Seen> RevisionWitness::Read() const {
  std::string text(kSize, '\0');
  if (::pread(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(kSize)) {
    return std::nullopt;
  }
  std::size_t first = text.find_first_not_of('0', 33);
  if (first >= kSummed) first = kSummed - 1;
  const auto revision = ParseInt(text.substr(first, kSummed - first));
  if (!revision || *revision < 0) return std::nullopt;
  Seen seen{.store_id = text.substr(0, 32), .revision = static_cast<Revision>(*revision)};
  if (Spell(seen) != text) return std::nullopt;
  return seen;
}

void RevisionWitness::Note(const Seen& seen) const {
  const std::string text = Spell(seen);
  struct stat before {};
  const bool first = ::fstat(file_.get(), &before) == 0 && before.st_size == 0;
  [[maybe_unused]] const ssize_t size = ::pwrite(file_.get(), text.data(), text.size(), 0);
  // Empty after a power loss it would be no witness, and every open job be held.
  if (first) (void)::fdatasync(file_.get());
}

}  // namespace launch::controller
