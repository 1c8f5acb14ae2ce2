// The part of libnccl.so.2 that launch-nccl-test calls: a star over TCP on this machine, whose
// centre, place 0, adds up what the others send. Its port is the unique id.
//   FAKE_NCCL=wrong-sum: the sum is one too large; refuses: no meeting, as with a bad interface;
//   slow: 1 MiB takes a quarter of a second
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum Outcome : int { kSuccess = 0, kSystemError = 2 };

struct UniqueId {
  char bytes[128];
};

struct Comm {
  int place = 0;
  std::vector<int> peers;  // of place 0: all others; else place 0 alone
};

int listener = -1;

bool Is(const char* wanted) {
  const char* const said = std::getenv("FAKE_NCCL");
  return said != nullptr && std::string(said) == wanted;
}

bool Move(int fd, void* data, std::size_t bytes, bool out) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = out ? ::send(fd, at, bytes, MSG_NOSIGNAL) : ::recv(fd, at, bytes, 0);
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

sockaddr_in Local(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;
  return address;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22707;
  return kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Local(0);
  socklen_t size = sizeof(address);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0) return kSystemError;
  if (::listen(listener, 64) != 0) return kSystemError;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::memcpy(id->bytes, &address.sin_port, sizeof(address.sin_port));
  return kSuccess;
}

int ncclCommInitRankConfig(Comm** comm, int nodes, UniqueId id, int place, void*) {
  if (Is("refuses")) return kSystemError;
  auto* const made = new Comm{place, {}};
  *comm = made;
  if (place == 0) {
    for (int i = 1; i < nodes; ++i) {
      const int peer = ::accept(listener, nullptr, nullptr);
      if (peer < 0) return kSystemError;
      made->peers.push_back(peer);
    }
    return kSuccess;
  }
  std::uint16_t port = 0;
  std::memcpy(&port, id.bytes, sizeof(port));
  const int centre = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Local(port);
  made->peers = {centre};
  const int met = ::connect(centre, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return met == 0 ? kSuccess : kSystemError;
}

int ncclCommGetAsyncError(Comm*, int* outcome) {
  *outcome = kSuccess;
  return kSuccess;
}

int ncclAllReduce(const void* in, void* out, std::size_t count, int, int, Comm* comm, void*) {
  const std::size_t bytes = count * sizeof(float);
  if (Is("slow")) ::usleep(static_cast<useconds_t>(bytes / 4));
  std::vector<float> sum(count);
  std::memcpy(sum.data(), in, bytes);
  if (comm->place != 0) {
    if (!Move(comm->peers[0], sum.data(), bytes, true)) return kSystemError;
    return Move(comm->peers[0], out, bytes, false) ? kSuccess : kSystemError;
  }
  std::vector<float> theirs(count);
  for (const int peer : comm->peers) {
    if (!Move(peer, theirs.data(), bytes, false)) return kSystemError;
    for (std::size_t i = 0; i < count; ++i) sum[i] += theirs[i];
  }
  if (Is("wrong-sum")) sum.back() += 1;
  for (const int peer : comm->peers) {
    if (!Move(peer, sum.data(), bytes, true)) return kSystemError;
  }
  std::memcpy(out, sum.data(), bytes);
  return kSuccess;
}

const char* ncclGetErrorString(int outcome) {
  return outcome == kSuccess ? "no error" : "unhandled system error";
}

const char* ncclGetLastError(Comm*) { return "Bootstrap : no socket interface found"; }

int ncclCommAbort(Comm*) { return kSuccess; }

}  // extern "C"
