#include "agent/link/identity_files.h"

#include <nlohmann/json.hpp>

#include "common/install_id.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxFileBytes = 256 * 1024;
constexpr const char* kJoinHint =
    "join the cluster first: launch-agent join --state DIR, with the line of `launch token create` "
    "on standard input";

std::string JoinedPath(const std::string& state_dir) {
  return IdentityDir(state_dir) + "/joined.json";
}

Result<std::string> ReadPart(FileSystem& files, const std::string& path) {
  auto text = files.Read(path, kMaxFileBytes);
  if (!text) text.error().hint = kJoinHint;
  return text;
}

}  // namespace

std::string CgroupName(const NodeId& node, const std::string& install_id) {
  return "launch-" + node.value + "-" + install_id.substr(0, kInstallDigits);
}

std::string IdentityDir(const std::string& state_dir) { return state_dir + "/identity"; }

Result<IdentityFiles> ReadIdentity(FileSystem& files, const std::string& state_dir) {
  auto identity = ReadCredentials(files, IdentityDir(state_dir));
  if (!identity) identity.error().hint = kJoinHint;
  return identity;
}

Result<void> WriteIdentity(FileSystem& files, const std::string& state_dir,
                           const IdentityFiles& identity) {
  const std::string dir = IdentityDir(state_dir);
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(dir));
  return WriteCredentials(files, dir, identity);
}

Result<JoinedCluster> ReadJoined(FileSystem& files, const std::string& state_dir) {
  const std::string path = JoinedPath(state_dir);
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, ReadPart(files, path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&path](const char* what) {
    return Fail(ErrorCode::kDataLoss, path + ": " + what, kJoinHint);
  };
  if (!json.is_object()) return bad("is not a JSON object");
  const auto node = json.find("node");
  const auto controllers = json.find("controllers");
  const auto install = json.find("install_id");
  if (node == json.end() || !node->is_string()) return bad("has no node name");
  if (controllers == json.end() || !controllers->is_array()) return bad("has no controllers");
  if (install == json.end() || !install->is_string()) return bad("has no install_id");
  JoinedCluster joined{.node = NodeId{node->get<std::string>()},
                       .install_id = install->get<std::string>()};
  if (!IsValidName(joined.node.value)) return bad("has an invalid node name");
  for (const auto& address : *controllers) {
    if (!address.is_string()) return bad("has a controller that is not a string");
    joined.controllers.push_back(address.get<std::string>());
  }
  return joined;
}

Result<void> WriteJoined(FileSystem& files, const std::string& state_dir,
                         const JoinedCluster& joined) {
  const nlohmann::ordered_json json = {{"node", joined.node.value},
                                       {"controllers", joined.controllers},
                                       {"install_id", joined.install_id}};
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(IdentityDir(state_dir)));
  return files.WriteDurable(JoinedPath(state_dir), json.dump(2) + "\n");
}

}  // namespace launch::agent
