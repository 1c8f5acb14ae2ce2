// The clusters this user knows: one directory each below the configuration directory, with
// credentials that only the user can read, and the name of the current one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/pki.h"

namespace launch {

// One row of `launch context`.
struct ContextRow {
  std::string name;
  bool known = false;  // false: its controller never answered
  bool current = false;
  std::optional<std::string> cluster;  // absent: the certificate cannot be read
  std::optional<std::string> address;  // likewise of its own file
  std::optional<std::string> user;
};

class Contexts {
 public:
  explicit Contexts(std::string dir) : dir_(std::move(dir)) {}
  // $XDG_CONFIG_HOME/launch, else ~/.config/launch.
  static std::string DefaultDir();

  // Checks the name of a context. kInvalidArgument for what would not be one plain directory name.
  static Result<void> CheckName(const std::string& name);

  std::vector<std::string> Names() const;      // sorted
  std::optional<std::string> Current() const;  // absent: none is chosen
  std::string Dir(const std::string& name) const { return dir_ + "/clusters/" + name; }
  Result<void> MustKnow(const std::string& name) const;  // kNotFound with the names there are
  Result<void> Use(const std::string& name);             // kNotFound with the names there are
  Result<void> Forget(const std::string& name);          // the files of this machine only

  // Renames a context; if it is the current one it stays current. kAlreadyExists where `to` is one
  // already.
  Result<void> Rename(const std::string& from, const std::string& to);
  // Who the certificate there says we are, and of which cluster; absent where it cannot be read.
  std::optional<Identity> Holder(const std::string& name) const;

  struct Credentials {
    std::string address;  // host:port
    std::string ca_pem;
    std::string certificate_pem;
    std::string key_pem;  // secret
  };
  // Writes the directory (mode 0700, files 0600), which `--credentials` takes too.
  Result<void> Save(const std::string& name, const Credentials& credentials);
  Result<void> SaveText(const std::string& name, const std::string& file, const std::string& text);

 private:
  const std::string dir_;
};

}  // namespace launch
