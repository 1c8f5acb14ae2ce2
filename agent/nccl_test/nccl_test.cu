// launch-nccl-test: one GPU of one node in an all-reduce through the job's own NCCL. A program of
// its own, because a hung collective or a driver that does not answer must not hold the agent.
//
//   launch-nccl-test probe LIBNCCL                      whether a GPU and the library are there
//   launch-nccl-test LIBNCCL PLACE NODES SECONDS        the test
//
// Place 0 prints "id HEX" first, all others read that line from stdin. The last line is an object:
// {"ok": true, "version": "2.27.7", "us": 31.0, "mbit": 191000.0} or {"ok": false, "why": "..."}.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "nccl_abi.h"

namespace {

using launch::nccl::Comm;
using launch::nccl::UniqueId;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kSmall = 2048;        // floats: latency
// Floats, 1, 8 and 64 MiB: bandwidth, by the largest that does not take too long.
constexpr std::size_t kSizes[] = {1u << 18, 1u << 21, 1u << 24};
constexpr std::size_t kLarge = 1u << 24;
constexpr int kWarmUps = 3;
constexpr int kRounds = 10;
constexpr double kTime = 1.0;     // seconds for the rounds of one size
constexpr double kLongest = 3.0;  // of one all-reduce: a size that would take longer is left out

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 400)) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// No destructors: those of CUDA and NCCL may hang as the test did.
[[noreturn]] void End(const std::string& object) {
  std::printf("%s\n", object.c_str());
  std::fflush(stdout);
  ::_exit(0);
}

[[noreturn]] void GiveUp(const std::string& why) {
  End("{\"ok\": false, \"why\": \"" + Escaped(why) + "\"}");
}

// The library stays loaded to the end of the program.
class Library {
 public:
  explicit Library(const std::string& path) : path_(path) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) GiveUp(std::string("cannot load ") + ::dlerror());
  }
  template <typename Function>
  Function Get(const char* name) const {
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr) GiveUp(path_ + " has no " + name);
    return reinterpret_cast<Function>(symbol);
  }

 private:
  std::string path_;
  void* handle_ = nullptr;
};

// Driver calls by the names that cuda.h maps to today.
#define LAUNCH_NAME_OF(function) LAUNCH_TEXT_OF(function)
#define LAUNCH_TEXT_OF(function) #function
#define LAUNCH_DRIVER(function) library.Get<decltype(&function)>(LAUNCH_NAME_OF(function))

struct Driver {
  explicit Driver(const Library& library)
      : init(LAUNCH_DRIVER(cuInit)),
        count(LAUNCH_DRIVER(cuDeviceGetCount)),
        device(LAUNCH_DRIVER(cuDeviceGet)),
        retain(LAUNCH_DRIVER(cuDevicePrimaryCtxRetain)),
        set_current(LAUNCH_DRIVER(cuCtxSetCurrent)),
        alloc(LAUNCH_DRIVER(cuMemAlloc)),
        to_device(LAUNCH_DRIVER(cuMemcpyHtoD)),
        to_host(LAUNCH_DRIVER(cuMemcpyDtoH)),
        stream(LAUNCH_DRIVER(cuStreamCreate)),
        query(LAUNCH_DRIVER(cuStreamQuery)),
        error_name(LAUNCH_DRIVER(cuGetErrorName)) {}

  void Check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return;
    const char* name = nullptr;
    error_name(result, &name);
    GiveUp(std::string(what) + ": " + (name != nullptr ? name : std::to_string(result)));
  }
  void Begin() const {
    Check(init(0), "cuInit");
    int devices = 0;
    Check(count(&devices), "cuDeviceGetCount");
    if (devices == 0) GiveUp("CUDA sees no GPU in the job's environment");
  }
  CUstream Open() const {
    CUdevice first = 0;
    CUcontext context = nullptr;
    CUstream made = nullptr;
    Check(device(&first, 0), "cuDeviceGet");
    Check(retain(&context, first), "cuDevicePrimaryCtxRetain");
    Check(set_current(context), "cuCtxSetCurrent");
    Check(stream(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return made;
  }

  decltype(&cuInit) init;
  decltype(&cuDeviceGetCount) count;
  decltype(&cuDeviceGet) device;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuCtxSetCurrent) set_current;
  decltype(&cuMemAlloc) alloc;
  decltype(&cuMemcpyHtoD) to_device;
  decltype(&cuMemcpyDtoH) to_host;
  decltype(&cuStreamCreate) stream;
  decltype(&cuStreamQuery) query;
  decltype(&cuGetErrorName) error_name;
};

struct Nccl {
  explicit Nccl(const Library& library)
      : version(library.Get<launch::nccl::GetVersion>("ncclGetVersion")),
        unique_id(library.Get<launch::nccl::GetUniqueId>("ncclGetUniqueId")),
        init(library.Get<launch::nccl::CommInitRankConfig>("ncclCommInitRankConfig")),
        async_error(library.Get<launch::nccl::CommGetAsyncError>("ncclCommGetAsyncError")),
        all_reduce(library.Get<launch::nccl::AllReduce>("ncclAllReduce")),
        error(library.Get<launch::nccl::GetErrorString>("ncclGetErrorString")),
        last_error(library.Get<launch::nccl::GetLastError>("ncclGetLastError")),
        abort(library.Get<launch::nccl::CommAbort>("ncclCommAbort")) {}

  [[noreturn]] void Fail(const char* what, int outcome, Comm* comm) const {
    const char* const more = last_error(comm);
    const std::string why = std::string(what) + ": " + error(outcome) +
                            (more != nullptr && *more != '\0' ? std::string(" (") + more + ")" : "");
    GiveUp(why);
  }
  // Until what was begun is under way; false at the deadline.
  void Await(const char* what, int outcome, Comm* comm, Steady::time_point end) const {
    while (outcome == launch::nccl::kInProgress) {
      if (Steady::now() > end) GiveUp(std::string(what) + " did not end: a peer is not there");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const int asked = async_error(comm, &outcome);
      if (asked != launch::nccl::kSuccess) outcome = asked;
    }
    if (outcome != launch::nccl::kSuccess) Fail(what, outcome, comm);
  }

  launch::nccl::GetVersion version;
  launch::nccl::GetUniqueId unique_id;
  launch::nccl::CommInitRankConfig init;
  launch::nccl::CommGetAsyncError async_error;
  launch::nccl::AllReduce all_reduce;
  launch::nccl::GetErrorString error;
  launch::nccl::GetLastError last_error;
  launch::nccl::CommAbort abort;
};

std::string Hex(const UniqueId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : id.bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

UniqueId ReadId() {
  std::string word;
  std::string hex;
  std::cin >> word >> hex;
  UniqueId id{};
  if (word != "id" || hex.size() != 2 * sizeof(id.bytes)) GiveUp("no id came from place 0");
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    id.bytes[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

struct Test {
  const Driver& driver;
  const Nccl& nccl;
  Comm* comm;
  CUstream stream;
  CUdeviceptr data;
  Steady::time_point end;

  void Once(std::size_t floats) const {
    void* const at = reinterpret_cast<void*>(data);
    nccl.Await("the all-reduce",
               nccl.all_reduce(at, at, floats, launch::nccl::kFloat32, launch::nccl::kSum, comm,
                               stream),
               comm, end);
    for (;;) {
      const CUresult state = driver.query(stream);
      if (state == CUDA_SUCCESS) return;
      if (state != CUDA_ERROR_NOT_READY) driver.Check(state, "the all-reduce");
      int outcome = 0;
      nccl.async_error(comm, &outcome);
      if (outcome != launch::nccl::kSuccess && outcome != launch::nccl::kInProgress) {
        nccl.Fail("the all-reduce", outcome, comm);
      }
      if (Steady::now() > end) GiveUp("the all-reduce did not end");
    }
  }
  void Set(std::size_t floats, float value) const {
    const std::vector<float> host(floats, value);
    driver.Check(driver.to_device(data, host.data(), floats * sizeof(float)), "cuMemcpyHtoD");
  }
  // The sums of 1 .. nodes must stand at both ends.
  void CheckSum(std::size_t floats, int nodes) const {
    std::vector<float> host(floats);
    driver.Check(driver.to_host(host.data(), data, floats * sizeof(float)), "cuMemcpyDtoH");
    const float right = static_cast<float>(nodes) * static_cast<float>(nodes + 1) / 2;
    const bool good = std::all_of(host.begin(), host.end(), [&](float f) { return f == right; });
    if (!good) GiveUp("the sum over " + std::to_string(nodes) + " nodes is not right");
  }
  double Seconds(std::size_t floats) const {
    const auto begin = Steady::now();
    Once(floats);
    return std::chrono::duration<double>(Steady::now() - begin).count();
  }
  // Median seconds.
  double Time(std::size_t floats, int rounds) const {
    std::vector<double> taken;
    for (int i = 0; i < rounds; ++i) taken.push_back(Seconds(floats));
    std::nth_element(taken.begin(), taken.begin() + rounds / 2, taken.end());
    return taken[static_cast<std::size_t>(rounds / 2)];
  }
  // The mean of what all nodes say, the same everywhere: they must decide alike what comes next.
  double Agreed(double mine, int nodes) const {
    Set(1, static_cast<float>(mine));
    Once(1);
    float sum = 0;
    driver.Check(driver.to_host(&sum, data, sizeof(sum)), "cuMemcpyDtoH");
    return static_cast<double>(sum) / nodes;
  }
};

struct Bandwidth {
  std::size_t floats = 0;
  double seconds = 0;
};

Bandwidth Largest(const Test& test, int nodes) {
  Bandwidth largest;
  for (const std::size_t floats : kSizes) {
    test.Set(floats, 0);
    if (largest.floats == 0) test.Once(floats);  // the first opens connections
    const double once = test.Agreed(test.Seconds(floats), nodes);
    const int rounds = std::clamp(static_cast<int>(kTime / std::max(once, 1e-6)), 0, kRounds);
    test.Set(floats, 0);
    largest = {floats, rounds < 2 ? once : test.Time(floats, rounds)};
    const double next = once * 8;
    if (next > kLongest) break;
  }
  return largest;
}

int Run(const std::string& library, int place, int nodes, int seconds) {
  const auto end = Steady::now() + std::chrono::seconds(seconds);
  // Calls of a driver that does not answer are not ours to end.
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::seconds(seconds + 2));
    GiveUp("no end within " + std::to_string(seconds) + " s");
  }).detach();
  const Driver driver(Library("libcuda.so.1"));
  driver.Begin();
  const CUstream stream = driver.Open();
  const Nccl nccl{Library(library)};
  int version = 0;
  nccl.version(&version);
  UniqueId id{};
  if (place == 0) {
    if (const int outcome = nccl.unique_id(&id); outcome != launch::nccl::kSuccess) {
      nccl.Fail("ncclGetUniqueId", outcome, nullptr);
    }
    std::printf("id %s\n", Hex(id).c_str());
    std::fflush(stdout);
  } else {
    id = ReadId();
  }
  Comm* comm = nullptr;
  launch::nccl::Config config;
  nccl.Await("the meeting of all nodes", nccl.init(&comm, nodes, id, place, &config), comm, end);
  CUdeviceptr data = 0;
  driver.Check(driver.alloc(&data, kLarge * sizeof(float)), "cuMemAlloc of 64 MiB");
  const Test test{driver, nccl, comm, stream, data, end};
  test.Set(kSmall, static_cast<float>(place + 1));
  test.Once(kSmall);
  test.CheckSum(kSmall, nodes);
  for (int i = 0; i < kWarmUps; ++i) test.Once(kSmall);
  const double small = test.Time(kSmall, kRounds);
  const Bandwidth large = Largest(test, nodes);
  // By each node: what nccl-tests call the bus bandwidth of an all-reduce.
  const double moved = 2.0 * (nodes - 1) / nodes * static_cast<double>(large.floats) * sizeof(float);
  char line[256];
  std::snprintf(line, sizeof(line),
                "{\"ok\": true, \"version\": \"%d.%d.%d\", \"us\": %.1f, \"mbit\": %.1f}",
                version / 10000, version / 100 % 100, version % 100, small * 1e6,
                moved * 8e-6 / large.seconds);
  End(line);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "probe") {
    const Driver driver(Library("libcuda.so.1"));
    driver.Begin();
    const Nccl nccl{Library(words[1])};
    End("{\"ok\": true}");
  }
  if (words.size() != 4) {
    std::fprintf(stderr, "usage: launch-nccl-test probe LIBNCCL | LIBNCCL PLACE NODES SECONDS\n");
    return 2;
  }
  return Run(words[0], std::atoi(words[1].c_str()), std::atoi(words[2].c_str()),
             std::atoi(words[3].c_str()));
}
