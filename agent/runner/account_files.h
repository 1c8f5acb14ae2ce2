// What the account that ranks run as may reach of the agent's state directory. Directories stay
// root's, so that nobody else may change a name in them; what a rank writes lies in a directory of
// its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/runner/attempt_dir.h"
#include "common/error.h"
#include "common/file_system.h"
#include "common/launch.h"

namespace launch::agent {

// To call once, where ranks run as other accounts: lets these pass through to what is theirs, and
// list nothing. kFailedPrecondition: a directory above keeps them out.
Result<void> OpenStateDir(FileSystem& files, const std::string& state_dir);

// Opens an attempt to its account: its group may pass through the directories, files/ is readable
// and rank.R/own writable for the account alone. To call again after more files were written.
Result<void> OpenAttempt(const AttemptDir& dir, const std::vector<Rank>& ranks,
                         const LocalAccount& account);
Result<void> OpenSetup(const AttemptDir& dir, const LocalAccount& account);

// Where the account keeps what is fetched once per node: images.
std::string ImagesDir(const std::string& attempt_dir, const LocalAccount& account);
Result<std::string> MakeImagesDir(const AttemptDir& dir, const LocalAccount& account);

// Makes the lock that the account's processes behind a container daemon hold (container.cc).
Result<void> MakeContainerLock(const AttemptDir& dir, const LocalAccount& account);

// Gives the account a tree that this process just made where nobody else could reach it; follows no
// link.
Result<void> GiveTree(const std::string& path, const LocalAccount& account);

// "~" of a plan that did not know the node's accounts (planner/start/environment.cc) becomes the
// home.
AllocationSpec AtHome(AllocationSpec spec, const LocalAccount& account);

}  // namespace launch::agent
