#include "cli/snapshot/git_files.h"

#include <fstream>

#include "cli/daemon.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr Millis kListDeadline{10'000};

constexpr const char* kTrackedScript =
    "cd \"$0\" || exit 1\n"
    "exec git --no-optional-locks -c core.fsmonitor=false ls-files -z --cached --ignored "
    "--exclude-standard 2>/dev/null\n";

}  // namespace

std::string FirstLineOfGitFile(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<GitPlace> FindGit(const fs::path& directory) {
  std::error_code ignored;
  for (fs::path dir = directory; !dir.empty(); dir = dir.parent_path()) {
    const fs::path git = dir / ".git";
    if (fs::is_directory(git, ignored)) return GitPlace{dir, git};
    if (fs::is_regular_file(git, ignored)) {
      const std::string line = FirstLineOfGitFile(git);
      if (line.starts_with("gitdir: ")) return GitPlace{dir, dir / line.substr(8)};
    }
    if (dir == dir.parent_path()) break;
  }
  return std::nullopt;
}

fs::path CommonGitDir(const fs::path& dir) {
  const std::string elsewhere = FirstLineOfGitFile(dir / "commondir");
  return elsewhere.empty() ? dir : dir / elsewhere;
}

GitPaths TrackedThoughIgnored(const std::string& directory) {
  GitPaths paths;
  const auto listed = RunToEnd({"/bin/sh", "-c", kTrackedScript, directory}, "", kListDeadline);
  if (!listed || listed->code != 0) return paths;
  const std::string& names = listed->output;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\0', begin);
    if (end == std::string::npos) break;  // RunToEnd cut there
    std::string path = names.substr(begin, end - begin);
    begin = end + 1;
    for (std::size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1))
      paths.insert(path.substr(0, slash));
    paths.insert(std::move(path));
  }
  return paths;
}

}  // namespace launch
