#include "cli/passing_cluster.h"

#include <cstdlib>
#include <filesystem>

#include "cli/environment_variable.h"

namespace launch {

Result<std::unique_ptr<PassingCluster>> PassingCluster::Start(
    const std::function<void(const std::string&)>& say) {
  const std::string parent = EnvironmentVariable("TMPDIR");
  std::string dir = (parent.empty() ? "/tmp" : parent) + "/launch-passing-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr) return FailErrno("make the directory " + dir, errno);
  std::unique_ptr<PassingCluster> made(new PassingCluster(std::move(dir)));
  LAUNCH_RETURN_IF_ERROR(made->cluster_.Up(DevOptions(), say));
  return made;
}

PassingCluster::~PassingCluster() {
  const Result<void> down = cluster_.Down(DevCluster::OnJobs::kCancel, [](const std::string&) {});
  std::error_code ignored;
  if (down) std::filesystem::remove_all(dir_, ignored);
}

}  // namespace launch
