#include "cli/up/ssh_session.h"

#include <fcntl.h>
#include <libssh/libssh.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/up/login_shell.h"
#include "cli/up/watchdog.h"
#include "common/quoted.h"
#include "common/unique_fd.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr std::size_t kMaxOutput = 1 << 20;
constexpr std::size_t kMaxErrors = 64 << 10;
// Larger writes meet Nagle's algorithm and delayed acknowledgements, or a server's packet limit.
constexpr std::size_t kPiece = 30'000;
// sshd drops new connections at random above MaxStartups (10:30:100): come again.
constexpr int kTries = 4;
// For the answers of directories and PAM behind a login.
constexpr Millis kLogIn{45'000};
// Beyond a command's own deadline: then it is the connection that hangs.
constexpr Millis kBeyond{5'000};

struct FreeSession {
  void operator()(ssh_session session) const {
    if (ssh_is_connected(session) != 0) ssh_disconnect(session);
    ssh_free(session);
  }
};
using Session = std::unique_ptr<ssh_session_struct, FreeSession>;

struct FreeChannel {
  void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
};
using Channel = std::unique_ptr<ssh_channel_struct, FreeChannel>;

std::string Said(ssh_session session) { return ssh_get_error(session); }

std::string NameOf(const Host& host) {
  std::string text = host.user.empty() ? host.Address() : host.user + "@" + host.Address();
  if (host.port != 0) text += ":" + std::to_string(host.port);
  return text;
}

std::string WithoutTilde(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

Result<Session> Prepare(const Host& host, const SshOptions& options) {
  Session session(ssh_new());
  if (!session) return Fail(ErrorCode::kInternal, "ssh_new failed");
  const auto set = [&](ssh_options_e option, const void* value) {
    return ssh_options_set(session.get(), option, value) == SSH_OK;
  };
  // The host first: Host and Match blocks of the configuration go by it.
  bool good = set(SSH_OPTIONS_HOST, host.Address().c_str());
  if (!options.config.empty())
    good = good && ssh_options_parse_config(session.get(), options.config.c_str()) == SSH_OK;
  good = good && ssh_options_parse_config(session.get(), nullptr) == SSH_OK;
  if (!host.user.empty()) good = good && set(SSH_OPTIONS_USER, host.user.c_str());
  if (host.port != 0) good = good && set(SSH_OPTIONS_PORT, &host.port);
  if (!host.key.empty())
    good = good && set(SSH_OPTIONS_ADD_IDENTITY, WithoutTilde(host.key).c_str());
  if (!host.jump.empty()) {
    std::string command = "exec ssh -o BatchMode=yes";
    if (options.accept_new) command += " -o StrictHostKeyChecking=accept-new";
    if (!host.key.empty()) command += " -i " + ShellQuote(WithoutTilde(host.key));
    if (!options.config.empty()) command += " -F " + ShellQuote(options.config);
    const std::size_t colon = host.jump.rfind(':');
    if (colon != std::string::npos) command += " -p " + host.jump.substr(colon + 1);
    command += " -W '[%h]:%p' -- " + host.jump.substr(0, colon);
    good = good && set(SSH_OPTIONS_PROXYCOMMAND, command.c_str());
  }
  const long timeout = options.timeout_s;
  const int no_delay = 1;
  good = good && set(SSH_OPTIONS_TIMEOUT, &timeout) && set(SSH_OPTIONS_NODELAY, &no_delay);
  if (!good)
    return Fail(ErrorCode::kInvalidArgument,
                "ssh options of " + NameOf(host) + ": " + Said(session.get()),
                "look at user, port and key of this host, and at your ssh configuration");
  return session;
}

Unexpected CannotConnect(const Host& host, const std::string& said) {
  const auto has = [&](std::string_view text) { return said.find(text) != std::string::npos; };
  std::string hint = "try: ssh " + NameOf(host);
  if (has("resolve")) {
    hint = "the name is not known here: write address: with an IP address, or a Host block";
  } else if (has("Timeout")) {
    hint =
        "it is down, or a firewall drops port " + std::to_string(host.port == 0 ? 22 : host.port);
  } else if (has("refused")) {
    hint = "no ssh server listens there: is it another port?";
  } else if (has("route")) {
    hint = "this machine has no route there: write jump: with a host that has";
  }
  return Fail(ErrorCode::kUnavailable, "ssh to " + NameOf(host) + ": " + said, hint);
}

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

Result<KeyState> LookUpKey(ssh_session session, const Host& host, const std::string& fingerprint) {
  switch (ssh_session_is_known_server(session)) {
    case SSH_KNOWN_HOSTS_OK:
      return KeyState::kKnown;
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return Fail(ErrorCode::kPermissionDenied,
                  "the host key of " + NameOf(host) + " is not the known one: " + fingerprint,
                  "if the machine was installed anew: ssh-keygen -R " + host.Address() +
                      ", then run this again; if not, somebody may stand in between");
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      return KeyState::kUnknown;
    case SSH_KNOWN_HOSTS_ERROR:
      break;
  }
  return Fail(ErrorCode::kIo, "known_hosts: " + Said(session), "look at ~/.ssh/known_hosts");
}

Result<void> CheckKey(ssh_session session, const Host& host, const SshOptions& options) {
  const std::string fingerprint = Fingerprint(session);
  {
    const KnownHosts turn(options.known_hosts_lock);
    LAUNCH_ASSIGN_OR_RETURN(const KeyState state, LookUpKey(session, host, fingerprint));
    if (state == KeyState::kKnown) return {};
  }
  if (!options.accept_key || !options.accept_key(NameOf(host), fingerprint))
    return Fail(ErrorCode::kPermissionDenied,
                "the host key of " + NameOf(host) + " is not known: " + fingerprint,
                "compare it with the machine's own and run `ssh " + NameOf(host) +
                    "` once, or give --accept-new-host-keys");
  const KnownHosts turn(options.known_hosts_lock);
  // Somebody else may have written it while the question stood.
  LAUNCH_ASSIGN_OR_RETURN(const KeyState state, LookUpKey(session, host, fingerprint));
  if (state == KeyState::kUnknown && ssh_session_update_known_hosts(session) != SSH_OK)
    return Fail(ErrorCode::kIo, "known_hosts cannot be written: " + Said(session),
                "look at ~/.ssh/known_hosts");
  return {};
}

Result<void> LogIn(ssh_session session, const Host& host) {
  if (ssh_userauth_none(session, nullptr) == SSH_AUTH_SUCCESS) return {};
  // With a passphrase of "" an encrypted key fails instead of asking on the terminal.
  if (ssh_userauth_publickey_auto(session, nullptr, "") == SSH_AUTH_SUCCESS) return {};
  return Fail(ErrorCode::kPermissionDenied,
              "ssh to " + NameOf(host) + ": no key of yours is accepted (" + Said(session) + ")",
              "add your public key there (ssh-copy-id), or name the key with --key; a key with a "
              "passphrase needs ssh-agent");
}

// Reads what is there of one stream; false on a broken connection.
bool Drain(ssh_channel channel, bool errors, std::size_t most, std::string& into) {
  std::array<char, 16384> buffer;
  for (;;) {
    const int got =
        ssh_channel_read_nonblocking(channel, buffer.data(), buffer.size(), errors ? 1 : 0);
    if (got == SSH_ERROR) return false;
    if (got <= 0) return true;
    const std::size_t room = most > into.size() ? most - into.size() : 0;
    into.append(buffer.data(), std::min(room, static_cast<std::size_t>(got)));
  }
}

class SshSession final : public Remote {
 public:
  SshSession(Session session, std::unique_ptr<Watchdog> watchdog, const Host& host)
      : session_(std::move(session)),
        watchdog_(std::move(watchdog)),
        name_(NameOf(host)),
        as_root_(host.sudo) {}

  Result<RemoteAnswer> Send(const std::string& command, std::string_view input, Millis deadline,
                            const SentBytes& sent) override {
    watchdog_->Begin(deadline + kBeyond);
    auto answer = Exchange(command, input, deadline, sent);
    watchdog_->End();
    return answer;
  }

 private:
  Result<RemoteAnswer> Exchange(const std::string& command, std::string_view input, Millis deadline,
                                const SentBytes& sent) {
    Channel channel(ssh_channel_new(session_.get()));
    if (!channel || ssh_channel_open_session(channel.get()) != SSH_OK) return Broken();
    if (ssh_channel_request_exec(channel.get(), ForAnyLoginShell(command, as_root_).c_str()) !=
        SSH_OK)
      return Broken();
    for (std::size_t at = 0; at < input.size(); at += kPiece) {
      const auto size = static_cast<std::uint32_t>(std::min(kPiece, input.size() - at));
      if (ssh_channel_write(channel.get(), input.data() + at, size) != static_cast<int>(size))
        break;
      sent(at + size);
    }
    ssh_channel_send_eof(channel.get());
    RemoteAnswer answer;
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (ssh_channel_is_eof(channel.get()) == 0) {
      if (!Drain(channel.get(), false, kMaxOutput, answer.output) ||
          !Drain(channel.get(), true, kMaxErrors, answer.errors)) {
        return Broken();
      }
      if (ssh_channel_is_eof(channel.get()) != 0) break;
      if (std::chrono::steady_clock::now() > end)
        return Fail(ErrorCode::kDeadlineExceeded, "a command on " + name_ + " takes too long",
                    "the machine may be overloaded, or a file system of it hangs");
      (void)ssh_channel_poll_timeout(channel.get(), 50, 0);
    }
    if (!Drain(channel.get(), false, kMaxOutput, answer.output) ||
        !Drain(channel.get(), true, kMaxErrors, answer.errors)) {
      return Broken();
    }
    answer.code = ssh_channel_get_exit_status(channel.get());
    ssh_channel_close(channel.get());
    return answer;
  }

  Unexpected Broken() const {
    if (watchdog_->Fired())
      return Fail(ErrorCode::kDeadlineExceeded, name_ + " stopped answering in the middle",
                  "the machine may be overloaded, or its network broke; run this again");
    return Fail(ErrorCode::kUnavailable,
                "the connection to " + name_ + " broke: " + Said(session_.get()),
                "run this again: what is done is not done twice");
  }

  Session session_;
  std::unique_ptr<Watchdog> watchdog_;  // ends before its socket is closed
  const std::string name_;
  const bool as_root_;
};

}  // namespace

Result<std::unique_ptr<Remote>> Connect(const Host& host, const SshOptions& options) {
  static std::once_flag once;  // a static libssh has no constructor of its own
  std::call_once(once, [] { (void)ssh_init(); });
  for (int attempt = 1;; ++attempt) {
    LAUNCH_ASSIGN_OR_RETURN(Session session, Prepare(host, options));
    if (ssh_connect(session.get()) != SSH_OK) {
      const std::string said = Said(session.get());
      const bool dropped = said.find("reset") != std::string::npos ||
                           said.find("disconnected") != std::string::npos ||
                           said.find("banner") != std::string::npos;
      if (!dropped || attempt == kTries) return CannotConnect(host, said);
      std::this_thread::sleep_for(std::chrono::milliseconds(200 * attempt));
      continue;
    }
    LAUNCH_RETURN_IF_ERROR(CheckKey(session.get(), host, options));
    auto watchdog = std::make_unique<Watchdog>(ssh_get_fd(session.get()));
    watchdog->Begin(kLogIn);
    auto entered = LogIn(session.get(), host);
    watchdog->End();
    if (!entered && watchdog->Fired())
      return Fail(ErrorCode::kDeadlineExceeded,
                  "ssh to " + NameOf(host) + ": the login is not answered within " +
                      FormatDurationShort(kLogIn),
                  "the machine may be overloaded, or what it asks about users hangs");
    LAUNCH_RETURN_IF_ERROR(std::move(entered));
    return std::unique_ptr<Remote>(
        std::make_unique<SshSession>(std::move(session), std::move(watchdog), host));
  }
}

}  // namespace launch::up
