// What operators do to a store from outside its controller: check, back up, restore.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "controller/core/record.h"
#include "controller/store/store.h"

namespace launch::controller {

struct StoreFacts {
  std::string store_id;
  Revision revision = 0;
  std::int64_t schema = 0;
  std::uint64_t rows = 0;
  std::uint64_t events = 0;
};

// Every row and every event of the database `file` is read and verified, and each row must be one
// that this version can decode. A controller may be at work on it: the state of one moment is read.
// Changes nothing. kDataLoss names the first thing that is wrong.
Result<StoreFacts> CheckStore(const std::string& file);

// The same of a backup, which is to blame where it is not sound: kInvalidArgument says whether it
// is damaged or no backup at all.
Result<StoreFacts> CheckBackup(const std::string& file);

// Copies the database of state directory `dir` as it is at one moment into the new file `target`,
// which is complete, verified and synced when it gets its name. The controller may go on meanwhile.
// Keys are not in it: the authority and secrets.key are files of their own. kAlreadyExists.
Result<StoreFacts> BackupStore(const std::string& dir, const std::string& target);

// Who and what was shut out by a store that a backup replaces, and is not in the backup.
struct CarriedOver {
  std::size_t certificates = 0;       // revoked ones, and those that were replaced
  std::vector<UserName> shut_out;     // users, with all certificates of before
  std::vector<UserName> no_operator;  // are none any more
  std::size_t tokens_revoked = 0;
  std::size_t tokens_used = 0;
  std::vector<NodeId> nodes;  // have another certificate since
  friend bool operator==(const CarriedOver&, const CarriedOver&) = default;
};

// Puts a verified backup in the place of the store of `dir`, whose controller must be down. The old
// one stays beside it under another name. The next start opens a new incarnation, skips numbers of
// jobs, and takes the numbers of attempts from what the nodes saw. Incarnation and numbers go on
// from those of the old store, which one backup that is restored twice would give twice. Nobody is
// let in again whom the old store had shut out. kFailedPrecondition: a backup of another store than
// the one that is there.
struct Restored {
  StoreFacts facts;
  std::string old_store;   // where the one that was there is now; empty: there was none
  std::string unreadable;  // why that could not be read; empty: it could, or there was none
  std::optional<CarriedOver> carried;  // absent: no older store of this cluster could be read
};
Result<Restored> RestoreStore(const std::string& backup, const std::string& dir);

// The record of a restored store beside that of the one it replaces: none of its numbers is given a
// second time.
ClusterRecord GoneOnFrom(ClusterRecord restored, const ClusterRecord& old);

// The records that say who may come in, by their keys.
using AccessRecords = std::map<std::string, Entity>;

// What has to be put into the restored store, so that it lets in nobody and nothing that `old` has
// shut out: denied certificates, users that were revoked or are no operators any more, join tokens
// that were used or revoked, the certificates that nodes have. What was granted since the backup
// is not carried over, but for the certificates.
std::vector<Entity> ShutOutsFrom(const AccessRecords& old, const AccessRecords& restored,
                                 CarriedOver& carried);

}  // namespace launch::controller
