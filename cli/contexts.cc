#include "cli/contexts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/credential_files.h"
#include "common/file_system.h"
#include "common/text.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string Contexts::DefaultDir() {
  if (const char* dir = std::getenv("XDG_CONFIG_HOME"); dir != nullptr && *dir == '/')
    return std::string(dir) + "/launch";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.config/launch";
}

Result<void> Contexts::CheckName(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
      });
  if (good) return {};
  return Fail(ErrorCode::kInvalidArgument, "'" + name + "' is not a name of a cluster",
              "use letters, digits and -_.");
}

std::vector<std::string> Contexts::Names() const {
  auto names = PosixFileSystem().List(dir_ + "/clusters").value_or(std::vector<std::string>());
  std::erase_if(names, [this](const std::string& name) {
    return !PathExists(dir_ + "/clusters/" + name + "/address");
  });
  return names;
}

std::optional<std::string> Contexts::Current() const {
  std::ifstream in(dir_ + "/current");
  std::string name;
  if (!std::getline(in, name) || !CheckName(name)) return std::nullopt;
  if (!PathExists(Dir(name) + "/address")) return std::nullopt;
  return name;
}

Result<void> Contexts::MustKnow(const std::string& name) const {
  LAUNCH_RETURN_IF_ERROR(CheckName(name));
  const std::vector<std::string> names = Names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string known = Joined(names, ", ");
    return Fail(ErrorCode::kNotFound, "no cluster is called " + name + " here",
                known.empty() ? "`launch up` makes one" : "known are: " + known);
  }
  return {};
}

Result<void> Contexts::Use(const std::string& name) {
  LAUNCH_RETURN_IF_ERROR(MustKnow(name));
  PosixFileSystem files;
  return files.WriteDurable(dir_ + "/current", name + "\n");
}

Result<void> Contexts::Forget(const std::string& name) {
  LAUNCH_RETURN_IF_ERROR(CheckName(name));
  PosixFileSystem files;
  const bool current = Current() == name;
  LAUNCH_RETURN_IF_ERROR(files.RemoveTree(Dir(name)));
  if (current) return files.RemoveTree(dir_ + "/current");
  return {};
}

Result<void> Contexts::Rename(const std::string& from, const std::string& to) {
  LAUNCH_RETURN_IF_ERROR(MustKnow(from));
  LAUNCH_RETURN_IF_ERROR(CheckName(to));
  std::error_code error;
  if (fs::exists(Dir(to), error))
    return Fail(ErrorCode::kAlreadyExists, "a cluster called " + to + " is known here already",
                "choose another name, or: launch context forget " + to);
  const bool current = Current() == from;
  fs::rename(Dir(from), Dir(to), error);
  if (error) return FailErrno("rename " + Dir(from) + " to " + Dir(to), error.value());
  return current ? Use(to) : Result<void>();
}

std::optional<Identity> Contexts::Holder(const std::string& name) const {
  const auto pem = PosixFileSystem().Read(Dir(name) + "/cert.pem", 1 << 20);
  if (!pem) return std::nullopt;
  const auto certificate = ReadCertificate(*pem);
  if (!certificate) return std::nullopt;
  return certificate->identity;
}

Result<void> Contexts::Save(const std::string& name, const Credentials& credentials) {
  LAUNCH_RETURN_IF_ERROR(CheckName(name));
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(Dir(name)));
  LAUNCH_RETURN_IF_ERROR(WriteCredentials(
      files, Dir(name), {credentials.ca_pem, credentials.certificate_pem, credentials.key_pem}));
  return SaveText(name, "address", credentials.address + "\n");
}

Result<void> Contexts::SaveText(const std::string& name, const std::string& file,
                                const std::string& text) {
  LAUNCH_RETURN_IF_ERROR(CheckName(name));
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(Dir(name)));
  return files.WriteDurable(Dir(name) + "/" + file, text);
}

}  // namespace launch
