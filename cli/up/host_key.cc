#include "cli/up/host_key.h"

#include <fcntl.h>
#include <libssh/libssh.h>
#include <sys/file.h>

#include <memory>
#include <mutex>

#include "cli/up/head_address.h"
#include "common/quoted.h"
#include "common/unique_fd.h"

namespace launch::up {
namespace {

std::string LastError(ssh_session session) { return ssh_get_error(session); }

std::string Fingerprint(ssh_session session) {
  ssh_key key = nullptr;
  if (ssh_get_server_publickey(session, &key) != SSH_OK) return {};
  const std::unique_ptr<ssh_key_struct, void (*)(ssh_key)> owner(key, ssh_key_free);
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) != 0) return {};
  char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
  const std::string kind = ssh_key_type_to_char(ssh_key_type(key));
  std::string fingerprint = kind + " " + (text == nullptr ? "" : text);
  ssh_string_free_char(text);
  ssh_clean_pubkey_hash(&hash);
  return fingerprint;
}

// known_hosts is read and written by all threads, and by other runs of this program.
class KnownHosts {
 public:
  explicit KnownHosts(const std::string& lock_file) : lock_(Files()) {
    if (lock_file.empty()) return;
    fd_.Reset(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd_) (void)::flock(fd_.get(), LOCK_EX);
  }

 private:
  static std::mutex& Files() {
    static std::mutex files;
    return files;
  }
  const std::lock_guard<std::mutex> lock_;
  UniqueFd fd_;
};

enum class KeyState { kKnown, kUnknown };

// The command by which a person takes the known key of the host away.
std::string Forgetting(ssh_session session, const Host& host, const std::string& known_hosts) {
  constexpr unsigned kUsualPort = 22;
  char* asked = nullptr;
  std::string name = host.Address();
  if (ssh_options_get(session, SSH_OPTIONS_HOST, &asked) == SSH_OK) {
    name = asked;
    ssh_string_free_char(asked);
  }
  unsigned port = kUsualPort;
  (void)ssh_options_get_port(session, &port);
  if (port != kUsualPort) name = "[" + name + "]:" + std::to_string(port);
  std::string command = "ssh-keygen -R " + ShellQuote(name);
  if (!known_hosts.empty()) command += " -f " + ShellQuote(known_hosts);
  return command;
}

Result<KeyState> LookUpKey(ssh_session session, const Host& host, const std::string& fingerprint,
                           const std::string& known_hosts) {
  switch (ssh_session_is_known_server(session)) {
    case SSH_KNOWN_HOSTS_OK:
      return KeyState::kKnown;
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return Fail(ErrorCode::kPermissionDenied,
                  "the host key of " + NameOf(host) + " is not the known one: " + fingerprint,
                  "if the machine was installed anew: " + Forgetting(session, host, known_hosts) +
                      ", then run this again; if not, somebody may stand in between");
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      return KeyState::kUnknown;
    case SSH_KNOWN_HOSTS_ERROR:
      break;
  }
  return Fail(ErrorCode::kIo, "known_hosts: " + LastError(session), "look at ~/.ssh/known_hosts");
}

}  // namespace

std::string NameOf(const Host& host) {
  const std::string& address = host.Address();
  return (host.user.empty() ? "" : host.user + "@") +
         (host.port == 0 ? address : WithPort(address, host.port));
}

std::string ByHand(const Host& host, const SshOptions& options) {
  std::string command = "ssh";
  if (!options.config.empty()) command += " -F " + ShellQuote(options.config);
  if (!host.jump.empty()) command += " -J " + host.jump;
  if (host.port != 0) command += " -p " + std::to_string(host.port);
  return command + " " + ShellQuote((host.user.empty() ? "" : host.user + "@") + host.Address());
}

Result<void> CheckKey(ssh_session session, const Host& host, const SshOptions& options,
                      const std::string& known_hosts) {
  const std::string fingerprint = Fingerprint(session);
  {
    const KnownHosts turn(options.known_hosts_lock);
    LAUNCH_ASSIGN_OR_RETURN(const KeyState state,
                            LookUpKey(session, host, fingerprint, known_hosts));
    if (state == KeyState::kKnown) return {};
  }
  if (!options.accept_key || !options.accept_key(NameOf(host), fingerprint))
    return Fail(ErrorCode::kPermissionDenied,
                "the host key of " + NameOf(host) + " is not known: " + fingerprint,
                "compare it with the machine's own and run `" + ByHand(host, options) +
                    "` once, or give --accept-new-host-keys");
  const KnownHosts turn(options.known_hosts_lock);
  // Somebody else may have written it while the question stood.
  LAUNCH_ASSIGN_OR_RETURN(const KeyState state, LookUpKey(session, host, fingerprint, known_hosts));
  if (state == KeyState::kUnknown && ssh_session_update_known_hosts(session) != SSH_OK)
    return Fail(ErrorCode::kIo, "known_hosts cannot be written: " + LastError(session),
                "look at ~/.ssh/known_hosts");
  return {};
}

}  // namespace launch::up
