// The truth about one Python interpreter, asked of the interpreter itself.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/probes/child_process.h"
#include "common/clock.h"
#include "common/inventory.h"

namespace launch::agent {

struct PythonQuestion {
  std::string path;    // as the user wrote it: a virtual environment is found by this path
  std::string user;    // empty: the agent's own
  std::string driver;  // version of the GPU driver; another one makes known answers void
  friend auto operator<=>(const PythonQuestion&, const PythonQuestion&) = default;
};

// Answers are kept while the interpreter, its site-packages, torch/version.py and the driver stay
// the same: good ones for a day, bad ones for ten minutes, that there was none for two.
// Thread-safe; answers of two threads that ask at once are both true.
class PythonProbe {
 public:
  struct Options {
    std::map<std::string, std::string> env;  // clean base environment of a rank
    Millis deadline{120'000};                // of the import of torch
    Millis read_deadline{10'000};            // of Read
    Millis answer_deadline{30'000};          // until it does anything: shared disks may be cold
    MakeProbeScope scope = {};               // where an interpreter runs
    std::size_t most_known = 256;            // beyond: the answer that is good for the least time
  };
  PythonProbe(Options options, Clock& clock);

  // What can be read without importing torch. A full answer is better and is given instead, also
  // when it is old, as long as nothing on disk changed; one that did not run is asked again.
  RuntimeFacts Read(const PythonQuestion& question, const std::atomic<bool>* cancel = nullptr);
  // With the import, up to the deadline. A missing, broken or slow interpreter is a fact with
  // `says`, never an error. `cancel` ends the question, and then the answer is of no worth.
  RuntimeFacts Ask(const PythonQuestion& question, const std::atomic<bool>* cancel = nullptr);
  // Would Ask answer without starting the interpreter?
  bool Knows(const PythonQuestion& question) const;

 private:
  struct Stamp {  // of a file or directory whose change voids the answer
    std::string path;
    ino_t inode = 0;
    std::int64_t mtime_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Known {
    RuntimeFacts facts;
    std::vector<Stamp> stamps;
    BootTime until{};
  };
  static Stamp StampOf(const std::string& path);
  // The known answer, if nothing changed on disk.
  std::optional<Known> Find(const PythonQuestion& question) const;
  enum class Depth { kRead, kImport };
  RuntimeFacts Run(const PythonQuestion& question, Depth depth, const std::atomic<bool>* cancel);

  const Options options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<PythonQuestion, Known> known_;  // guarded by mutex_
};

// Facts of the program's output, which may be whatever the interpreter's owner likes: cut to what a
// real one has. Other text on its stdout is ignored. `places` are files and
// directories whose change voids the answer; `complete` says that the last stage answered.
struct PythonAnswer {
  RuntimeFacts facts;
  std::vector<std::string> places;
  bool complete = false;
};
PythonAnswer ReadPythonAnswer(std::string_view output);

}  // namespace launch::agent
