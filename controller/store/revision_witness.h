// Remembers, beside the store, how far it had come: shows that a tail of commits was lost, or that
// an older copy was put in its place. Survives a kill; its first word is synced, no other, so that
// it costs no commit.
#pragma once

#include <optional>
#include <string>

#include "common/error.h"
#include "common/unique_fd.h"
#include "controller/store/store.h"

namespace launch::controller {

class RevisionWitness {
 public:
  struct Seen {
    std::string store_id;  // 32 hex digits
    Revision revision = 0;
  };

  static Result<RevisionWitness> Open(const std::string& path);

  // What the file says; absent when it is new or torn by a power loss.
  std::optional<Seen> Read() const;
  // A failure only leaves the older witness, which is still true.
  void Note(const Seen& seen) const;

 private:
  explicit RevisionWitness(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace launch::controller
