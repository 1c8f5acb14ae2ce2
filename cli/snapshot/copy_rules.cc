#include "cli/snapshot/copy_rules.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/snapshot/quiet_git.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

// For an index of a million files on a slow disk.
constexpr Millis kIndexDeadline{30'000};

std::string RulesIn(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// As git, which follows no link to its rules in a working tree.
std::string GitIgnoreIn(const fs::path& directory) {
  std::error_code ignored;
  if (fs::is_symlink(directory / ".gitignore", ignored)) return {};
  return RulesIn(directory / ".gitignore");
}

std::string Joined(const std::string& directory, const std::string& path) {
  if (directory.empty() || path.empty()) return directory + path;
  return directory + "/" + path;
}

}  // namespace

bool CopyRules::Index::Holds(const std::string& path) const {
  return std::ranges::binary_search(paths, path);
}

bool CopyRules::Index::HoldsBelow(const std::string& directory) const {
  const std::string start = directory + "/";
  const auto first = std::ranges::lower_bound(paths, start);
  return first != paths.end() && first->starts_with(start);
}

std::string CopyRules::InRepository(const std::string& path) const {
  return Joined(outside_, path);
}

CopyRules CopyRules::Around(const std::string& directory) {
  CopyRules rules;
  rules.root_ = directory;
  std::error_code error;
  const fs::path physical = fs::canonical(directory, error);
  if (const auto repository = GitRepositoryAround(directory); repository && !error) {
    rules.Enter(*repository, "");
    fs::path at;
    for (const fs::path& part : physical.lexically_relative(repository->root)) {
      if (part == ".") break;  // the working directory is the root
      rules.rules_.Add(GitIgnoreIn(repository->root / at), at.string());
      at /= part;
      if (rules.rules_.Ignores(at.string(), true)) rules.rules_.DropGitRules();
    }
    rules.outside_ = at.string();
  }
  rules.ReadFilesOf("");
  return rules;
}

CopyRules CopyRules::Below(const std::string& path, Take take) const {
  CopyRules inner = *this;
  inner.only_tracked_ = take == Take::kTracked;
  if (const auto repository = GitRepositoryAt(root_ / path)) inner.Enter(*repository, path);
  inner.ReadFilesOf(path);
  return inner;
}

// `path`: where its working tree begins, or "" for one that the working directory lies in.
void CopyRules::Enter(const GitRepository& repository, const std::string& path) {
  rules_.DropGitRules();
  only_tracked_ = false;
  auto index = std::make_shared<Index>();
  const std::string base = InRepository(path);
  if (const auto git = QuietGit::Open(repository, kIndexDeadline)) {
    rules_.Add(RulesIn(git->excludes_file()), base);
    auto tracked = git->TrackedFiles((root_ / path).string(), kIndexDeadline);
    if (tracked) {
      for (std::string& name : *tracked) index->paths.push_back(Joined(path, name));
    } else {
      index->unread = tracked.error().message;
    }
  } else {
    index->unread = git.error().message;
  }
  rules_.Add(RulesIn(repository.common / "info/exclude"), base);
  index_ = std::move(index);
}

void CopyRules::ReadFilesOf(const std::string& path) {
  const fs::path directory = root_ / path;
  const std::string base = InRepository(path);
  if (!only_tracked_) rules_.Add(GitIgnoreIn(directory), base);
  rules_.Add(RulesIn(directory / ".launchignore"), base, RuleSource::kLaunch);
}

CopyRules::Take CopyRules::Of(const std::string& path, bool is_directory) const {
  const std::string place = InRepository(path);
  if (!only_tracked_ && !rules_.Ignores(place, is_directory)) return Take::kYes;
  if (rules_.IgnoresTracked(place, is_directory)) return Take::kNo;
  if (!index_->unread.empty()) return Take::kUnsure;
  if (index_->Holds(path)) return Take::kYes;
  return is_directory && index_->HoldsBelow(path) ? Take::kTracked : Take::kNo;
}

}  // namespace launch
