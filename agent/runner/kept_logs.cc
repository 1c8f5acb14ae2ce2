#include "agent/runner/kept_logs.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <vector>

namespace launch::agent {

Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, FileSystem& files) {
  const auto names = files.List(dir.path());
  if (!names && names.error().code == ErrorCode::kNotFound) return {};
  if (!names) return Unexpected(names.error());
  for (const std::string& name : *names) {
    if (!name.starts_with("rank.")) continue;
    for (const char* const log : {"/out", "/err", "/out.index", "/err.index"}) {
      const std::string from = dir.path() + "/" + name + log;
      struct stat info {};
      if (::lstat(from.c_str(), &info) != 0 && errno == ENOENT) continue;
      LAUNCH_RETURN_IF_ERROR(files.MakeDirs(kept + "/" + name));
      if (std::rename(from.c_str(), (kept + "/" + name + log).c_str()) != 0)
        return FailErrno("rename " + from + " to " + kept, errno);
    }
  }
  return {};
}

}  // namespace launch::agent
