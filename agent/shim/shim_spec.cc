#include "agent/shim/shim_spec.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace launch::shim {

std::string EncodeSpec(const ShimSpec& spec) {
  SpecBlock block = spec.block;
  block.shim_cgroups = static_cast<std::uint32_t>(spec.shim_cgroups.size());
  block.rank_cgroups = static_cast<std::uint32_t>(spec.rank_cgroups.size());
  block.argc = static_cast<std::uint32_t>(spec.argv.size());
  block.envc = static_cast<std::uint32_t>(spec.env.size());
  std::string bytes(sizeof(SpecBlock), '\0');
  const auto add = [&bytes](const std::string& text) {
    bytes.append(text.c_str(), text.size() + 1);
  };
  add(spec.cwd);
  for (const auto* list : {&spec.shim_cgroups, &spec.rank_cgroups, &spec.argv, &spec.env}) {
    for (const std::string& text : *list) add(text);
  }
  block.header.magic = kMagic;
  block.header.version = kSpecVersion;
  block.header.length = static_cast<std::uint32_t>(bytes.size() - sizeof(Header));
  std::memcpy(bytes.data(), &block, sizeof block);
  block.header.crc = Crc32c(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header));
  std::memcpy(bytes.data(), &block.header, sizeof block.header);
  return bytes;
}

int OpenSpec(int fd, SpecView& view) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno;
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size <= sizeof(SpecBlock)) return EBADMSG;
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) return errno;
  auto* bytes = static_cast<char*>(mapped);
  auto* block = static_cast<SpecBlock*>(mapped);
  view.block = block;
  view.mapped_bytes = size;
  const Header& header = block->header;
  if (header.magic == kMagic && header.version != kSpecVersion) return EPROTONOSUPPORT;
  if (header.magic != kMagic || header.length != size - sizeof(Header) || bytes[size - 1] != '\0' ||
      header.crc != Crc32c(bytes + sizeof(Header), size - sizeof(Header))) {
    return EBADMSG;
  }
  const std::size_t pointers =
      std::size_t{block->shim_cgroups} + block->rank_cgroups + block->argc + block->envc;
  auto** table = static_cast<char**>(std::calloc(pointers + 4, sizeof(char*)));
  if (table == nullptr) return ENOMEM;
  view.table = table;

  char* at = bytes + sizeof(SpecBlock);
  char* const end = bytes + size;
  const auto take = [&at, end]() -> char* {
    if (at >= end) return nullptr;
    char* const text = at;
    at += std::strlen(text) + 1;
    return text;
  };
  view.cwd = take();
  if (view.cwd == nullptr) return EBADMSG;
  const auto list = [&](std::uint32_t count) -> char** {
    char** const first = table;
    for (std::uint32_t i = 0; i < count; ++i) {
      *table = take();
      if (*table == nullptr) return nullptr;
      ++table;
    }
    ++table;  // the null that ends the list
    return first;
  };
  view.shim_cgroups = list(block->shim_cgroups);
  if (view.shim_cgroups == nullptr) return EBADMSG;
  view.rank_cgroups = list(block->rank_cgroups);
  if (view.rank_cgroups == nullptr) return EBADMSG;
  view.argv = list(block->argc);
  if (view.argv == nullptr || block->argc == 0) return EBADMSG;
  view.env = list(block->envc);
  return view.env == nullptr ? EBADMSG : 0;
}

void CloseSpec(SpecView& view) {
  if (view.block != nullptr) {
    std::memset(static_cast<void*>(view.block), 0, view.mapped_bytes);
    (void)::munmap(view.block, view.mapped_bytes);
  }
  std::free(view.table);
  view = SpecView{};
}

}  // namespace launch::shim
