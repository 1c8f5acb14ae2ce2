#include "cli/snapshot/ship.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "common/quoted.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr int kRounds = 3;

// f_type of statfs(2) for file systems that several machines usually see. Of FUSE nobody knows.
constexpr std::array<std::uint32_t, 11> kNetworkFileSystems = {
    0x6969,      // NFS
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS
    0x00c36400,  // Ceph
    0x19830326,  // BeeGFS
    0x5346414f,  // AFS
    0x01021997,  // 9P
    0x20030528,  // OrangeFS
    0x65735546,  // FUSE
};

bool OnNetworkFileSystem(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  const auto type = static_cast<std::uint32_t>(info.f_type);
  return std::ranges::find(kNetworkFileSystems, type) != kNetworkFileSystems.end();
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> addresses;
  struct ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  for (const struct ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    char text[INET6_ADDRSTRLEN] = {};
    const void* address = nullptr;
    if (family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    } else if (family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    }
    if (address != nullptr && ::inet_ntop(family, address, text, sizeof text) != nullptr) {
      addresses.emplace_back(text);
    }
  }
  ::freeifaddrs(first);
  return addresses;
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("fe80:");
}

// Directories that hold everything and mean nothing: they are copied when somebody says so.
bool IsNoProject(const std::string& directory) {
  const char* home = std::getenv("HOME");
  return directory == "/" || directory == "/tmp" || directory == "/var/tmp" ||
         (home != nullptr && directory == home);
}

Result<void> Upload(const App& app, Client& client, const WorkdirCopy& copy) {
  std::vector<std::pair<std::string, std::uint32_t>> all;
  all.reserve(copy.chunks.size());
  for (const auto& [digest, source] : copy.chunks) all.emplace_back(digest, source.size);
  // A second look, because another client's sweep or a full disk may have come in between.
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::string> missing;
    for (std::size_t at = 0; at < all.size(); at += kMostChunksAsked) {
      const std::size_t end = std::min(at + kMostChunksAsked, all.size());
      LAUNCH_ASSIGN_OR_RETURN(
          const std::vector<std::string> some,
          client.MissingChunks({all.begin() + static_cast<std::ptrdiff_t>(at),
                                all.begin() + static_cast<std::ptrdiff_t>(end)}));
      missing.insert(missing.end(), some.begin(), some.end());
    }
    if (missing.empty()) return {};
    std::uint64_t sent = 0;
    std::vector<std::string> batch;
    std::size_t batch_bytes = 0;
    for (const std::string& digest : missing) {
      const auto source = copy.chunks.find(digest);
      if (source == copy.chunks.end()) continue;
      LAUNCH_ASSIGN_OR_RETURN(std::string bytes, ReadChunk(digest, source->second));
      if (batch_bytes + bytes.size() > kMostChunkBytesPut) {
        LAUNCH_RETURN_IF_ERROR(client.PutChunks(batch));
        batch.clear();
        batch_bytes = 0;
      }
      batch_bytes += bytes.size();
      sent += bytes.size();
      batch.push_back(std::move(bytes));
    }
    if (!batch.empty()) LAUNCH_RETURN_IF_ERROR(client.PutChunks(batch));
    app.Note("workdir: sent " + FormatBytes(sent) + " for a copy of " + FormatBytes(copy.bytes));
  }
  return Fail(ErrorCode::kResourceExhausted, "the controller does not keep the copy of workdir",
              "look at the free space of its state directory, then submit again");
}

}  // namespace

Shipping ShippingOf(const JobSpec& spec, bool other_machines, bool network_file_system) {
  if (spec.snapshot) return Shipping::kAlways;
  if (spec.in_place || !other_machines || network_file_system) return Shipping::kNever;
  return Shipping::kIfNotShared;
}

bool AnyOtherMachine(const std::vector<NodeView>& nodes, const std::vector<std::string>& own) {
  const std::set<std::string> ours(own.begin(), own.end());
  return std::ranges::any_of(nodes, [&](const NodeView& node) {
    if (!node.schedulable || node.inventory.addresses.empty()) return false;
    return std::ranges::none_of(node.inventory.addresses, [&](const NetworkAddress& one) {
      return !IsLoopback(one.address) && ours.contains(one.address);
    });
  });
}

Result<void> ShipWorkdir(const App& app, Client& client, PreparedJob& job, bool upload) {
  JobSpec& spec = job.job.spec;
  SubmitContext& context = job.facts.context;
  bool others = false;
  if (!spec.snapshot && !spec.in_place) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
    others = AnyOtherMachine(nodes, OwnAddresses());
  }
  const Shipping shipping = ShippingOf(spec, others, OnNetworkFileSystem(spec.workdir));
  if (shipping == Shipping::kNever || context.workdir_inode == 0) return {};
  if (shipping == Shipping::kIfNotShared && IsNoProject(spec.workdir)) return {};
  CopyLimits limits;
  if (shipping == Shipping::kIfNotShared) limits.bytes = kUnaskedCopyBytes;
  auto copy = CopyWorkdir(spec.workdir, limits);
  if (!copy && shipping == Shipping::kIfNotShared) {
    app.Note("notice: no copy of workdir goes along, so every node must see it: " +
             copy.error().message);
    return {};
  }
  if (!copy) return Unexpected(std::move(copy).error());
  if (!copy->skipped.empty()) {
    app.Note(
        "notice: " + std::to_string(copy->skipped.size()) +
        " sockets, pipes or devices of workdir are not copied: " + Quoted(copy->skipped.front()));
  }
  if (!copy->leaving.empty()) {
    app.Note("notice: " + std::to_string(copy->leaving.size()) +
             " links of workdir lead out of it, to what the nodes must have themselves: " +
             Quoted(copy->leaving.front()));
  }
  if (!copy->unsure.empty()) {
    app.Note(
        "notice: " + std::to_string(copy->unsure.size()) +
        " paths of workdir that .gitignore names are not copied, even where git tracks them (" +
        copy->unsure_why + "): " + Quoted(copy->unsure.front()) +
        "; to copy one, write !NAME into .launchignore");
  }
  if (upload) LAUNCH_RETURN_IF_ERROR(Upload(app, client, *copy));
  context.snapshot = copy->root;
  context.snapshot_files = copy->files;
  context.snapshot_bytes = copy->bytes;
  return {};
}

}  // namespace launch
