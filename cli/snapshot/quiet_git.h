// git on somebody's repository, without anything that the repository or its configuration could
// make it run: filters, text conversions, external diffs, monitors, hooks, remotes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/daemon.h"
#include "cli/signal_hold.h"
#include "cli/snapshot/git_repository.h"
#include "common/clock.h"
#include "common/error.h"

namespace launch {

// A repository directory of our own beside the user's: it has a copy of the index, reads the same
// objects, and its configuration holds a few plain values of the other. Whatever an attribute names
// is not defined in it. Nothing is written into the user's repository. Not for concurrent use.
class QuietGit {
 public:
  // Asks git once for the plain values, at most for `deadline`.
  static Result<QuietGit> Open(const GitRepository& repository, Millis deadline);
  QuietGit(QuietGit&& other) noexcept;
  QuietGit& operator=(QuietGit&&) = delete;
  QuietGit(const QuietGit&) = delete;
  QuietGit& operator=(const QuietGit&) = delete;
  ~QuietGit();

  // `git ARGUMENT...` in `directory` of the working tree. kDeadlineExceeded has what git wrote
  // until then as its hint; kNotFound: there is no git.
  Result<Finished> Run(const std::string& directory, const std::vector<std::string>& arguments,
                       Millis deadline) const;

  // Paths below `directory`, relative to it, that the index holds; submodules by their directory.
  Result<std::vector<std::string>> TrackedFiles(const std::string& directory,
                                                Millis deadline) const;

  // core.excludesFile, or where git looks without it.
  const std::filesystem::path& excludes_file() const { return excludes_file_; }

 private:
  QuietGit() = default;
  Result<void> Prepare(const GitRepository& repository, Millis deadline);
  Result<void> CopyIndex(const GitRepository& repository) const;
  Result<std::string> Configuration(const GitRepository& repository, Millis deadline);
  std::vector<std::string> Environment() const;

  std::shared_ptr<SignalHold> hold_;  // outlives the directory
  std::filesystem::path own_;
  std::filesystem::path root_;
  std::filesystem::path objects_;
  std::filesystem::path excludes_file_;
};

}  // namespace launch
