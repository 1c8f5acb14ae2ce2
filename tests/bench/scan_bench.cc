// Speed and memory of the log scanner on a gigabyte of each kind of log, beside what the machine
// needs to look for the ends of the lines (memchr, as `wc -l` does). One core, one line of JSON.
//   scan-bench [bytes of each log]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnosis/log_scanner.h"
#include "diagnosis/verdict.h"
#include "tests/bench/own_usage.h"

namespace launch {
namespace {

constexpr std::size_t kBlock = 4 << 20;

using bench::CpuSeconds;
using bench::PeakMib;

std::string Repeated(const std::function<std::string(std::mt19937&)>& line) {
  std::mt19937 random(7);
  std::string block;
  block.reserve(kBlock + 512);
  while (block.size() < kBlock) block += line(random);
  block.resize(kBlock);
  return block;
}

std::string Number(std::mt19937& random, unsigned below) {
  return std::to_string(random() % below);
}

std::string Step(std::mt19937& random) {
  return "[rank" + Number(random, 8) + "]: step " + Number(random, 100000) + "/100000 loss=2." +
         Number(random, 10000) + " lr=3.0e-04 grad_norm=1." + Number(random, 1000) +
         " tokens/s=" + Number(random, 90000) + "\n";
}

std::string Bar(std::mt19937& random) {
  return "\r\x1b[32mepoch 1\x1b[0m:  " + Number(random, 100) + "%|\xe2\x96\x88\xe2\x96\x88  | " +
         Number(random, 1000) + "/1000 [00:10<00:50, 12.3it/s]";
}

std::string Binary(std::mt19937& random) {
  std::string bytes(256, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 0xff);
  return bytes;
}

std::string Errors(std::mt19937& random) {
  return "Traceback (most recent call last):\n  File \"train.py\", line " + Number(random, 500) +
         ", in <module>\n    main()\nRuntimeError: CUDA out of memory. Tried to allocate " +
         Number(random, 40) +
         ".00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.44 GiB "
         "is free.\n";
}

struct Kind {
  const char* name;
  std::string block;
};

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  kinds.push_back({"steps", Repeated(Step)});
  kinds.push_back({"progress bars with escapes", Repeated(Bar)});
  kinds.push_back({"one line", std::string(kBlock, 'x')});
  kinds.push_back({"NULs", std::string(kBlock, '\0')});
  kinds.push_back({"random bytes", Repeated(Binary)});
  kinds.push_back({"errors only", Repeated(Errors)});
  return kinds;
}

// The blocks go through a small buffer, as they do when a file is read.
template <class Take>
void Stream(const Kind& kind, std::size_t bytes, Take take) {
  constexpr std::size_t kChunk = 256 << 10;
  for (std::size_t at = 0; at < bytes; at += kChunk) {
    take(std::string_view(kind.block).substr(at % kBlock, std::min(kChunk, bytes - at)));
  }
}

double SecondsOf(const std::function<void()>& work) {
  const double begin = CpuSeconds();
  work();
  return CpuSeconds() - begin;
}

void Measure(const Kind& kind, std::size_t bytes, const CompiledSignatures& table) {
  std::size_t lines = 0;
  const double yardstick = SecondsOf([&] {
    Stream(kind, bytes, [&](std::string_view chunk) {
      const char* at = chunk.data();
      const char* const end = at + chunk.size();
      while (at < end && (at = static_cast<const char*>(
                              std::memchr(at, '\n', static_cast<std::size_t>(end - at))))) {
        ++lines;
        ++at;
      }
    });
  });
  std::size_t hits = 0;
  const double scan = SecondsOf([&] {
    LogScanner scanner(table);
    Stream(kind, bytes, [&](std::string_view chunk) { scanner.Feed(chunk); });
    hits = scanner.Finish().hits.size();
  });
  const double mb = static_cast<double>(bytes) / 1e6;
  std::printf("| %-26s | %7.0f MB/s | %8.0f MB/s | %6.1f x | %4zu | %5.0f MiB |\n", kind.name,
              mb / scan, mb / yardstick, scan / yardstick, hits, PeakMib());
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000'000;
  const launch::CompiledSignatures table;
  std::printf("| Log of %zu MB | scanner | lines by memchr | ratio | hits | peak |\n",
              bytes / 1'000'000);
  std::printf("|---|---|---|---|---|---|\n");
  for (const launch::Kind& kind : launch::Kinds()) launch::Measure(kind, bytes, table);
  return 0;
}
