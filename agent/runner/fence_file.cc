#include "agent/runner/fence_file.h"

#include <unistd.h>

#include "agent/runner/record_file.h"

namespace launch::agent {

Result<void> WriteFence(FileSystem& files, const std::string& state_dir, const Fence& fence) {
  RecordWriter out;
  out.Put(fence.incarnation);
  out.Put(fence.epoch);
  out.Put(fence.revision);
  return files.WriteDurable(FencePath(state_dir), SealBody(out.bytes()));
}

Result<Fence> ReadFence(FileSystem& files, const std::string& state_dir) {
  const std::string path = FencePath(state_dir);
  if (::access(path.c_str(), F_OK) != 0) return Fence{};
  LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, files.Read(path, 4096));
  const auto body = OpenBody(bytes);
  if (!body) return Fail(ErrorCode::kDataLoss, path + ": " + body.error().message);
  RecordReader in(*body);
  Fence fence;
  fence.incarnation = in.TakeNumber();
  fence.epoch = in.TakeNumber();
  fence.revision = in.TakeNumber();
  if (!in.ok() || !in.AtEnd()) return Fail(ErrorCode::kDataLoss, path + ": fields are missing");
  return fence;
}

}  // namespace launch::agent
