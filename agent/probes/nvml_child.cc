#include "agent/probes/nvml_child.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <thread>

#include "agent/probes/nvml_api.h"
#include "agent/probes/nvml_messages.h"
#include "agent/probes/nvml_session.h"

namespace launch::agent {
namespace {

bool ReadAll(char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(STDIN_FILENO, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

// While a call hangs nobody reads stdin; this notices that the agent is gone all the same.
void EndWithAgent() {
  std::thread([] {
    pollfd hangup{STDIN_FILENO, 0, 0};
    while (::poll(&hangup, 1, -1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }).detach();
}

bool PidExists(std::int64_t pid) {
  struct stat found {};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &found) == 0;
}

// The library and a session over it; opened on the first request and again after a failure.
class Driver {
 public:
  explicit Driver(std::string path) : path_(std::move(path)) {}

  std::string Open() {
    if (!library_) {
      auto opened = OpenNvmlLibrary(path_);
      if (!opened) return std::string(kNoLibrary) + opened.error().message;
      library_ = std::move(*opened);
      session_.emplace(ResolveNvml(*library_), PidExists);
    }
    std::string problem = session_->Open();
    // The library on disk may be replaced by the one that fits the kernel module.
    if (!problem.empty()) Close();
    return problem;
  }

  NvmlSession* session() { return session_ ? &*session_ : nullptr; }

 private:
  void Close() {
    session_.reset();
    library_.reset();
  }
  const std::string path_;
  std::unique_ptr<SymbolResolver> library_;
  std::optional<NvmlSession> session_;  // destroyed before the library
};

std::string Answer(Driver& driver, std::string_view verb) {
  GpuFacts facts;
  facts.problem = driver.Open();
  NvmlSession* session = driver.session();
  if (verb == kAskSample)
    return EncodeSamples(session ? session->Sample() : std::vector<GpuSample>{});
  if (verb == kAskProcesses)
    return EncodeProcesses(session ? session->Processes() : GpuProcessList{});
  if (session == nullptr) return EncodeFacts(facts);
  if (verb == kAskOpen) {
    session->Wake();
    return EncodeFacts(facts);
  }
  return EncodeFacts(session->List());
}

}  // namespace

int RunNvmlChild(const std::string& library) {
  EndWithAgent();
  Driver driver(library);
  while (true) {
    char header[kFrameHeader];
    if (!ReadAll(header, sizeof header)) return 0;
    const std::size_t length = FrameLength({header, sizeof header});
    if (length > kMaxFrame) return 1;
    std::string body(length, '\0');
    if (!ReadAll(body.data(), length)) return 0;
    const Result<std::string> verb = DecodeRequest(body);
    if (!verb) return 1;
    if (!WriteAll(FrameOf(Answer(driver, *verb)))) return 0;
  }
}

}  // namespace launch::agent
