#include "cli/up/ssh_session.h"

#include <fcntl.h>
#include <libssh/libssh.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/up/host_key.h"
#include "cli/up/jump.h"
#include "cli/up/login_shell.h"
#include "cli/up/ssh_config.h"
#include "cli/up/watchdog.h"
#include "common/text.h"
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
// For a piece of what is sent, and for the acknowledgement of its last byte: a host that takes none
// any more is gone.
constexpr Millis kStalled{30'000};
// A server that lets one session in at a time (MaxSessions 1) may not have seen the last one end.
constexpr int kOpenTries = 8;
constexpr Millis kOpenAgain{10};  // doubled each time
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

std::string WithoutTilde(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

// A session that is not connected yet.
struct Prepared {
  Session session;
  bool jumps = false;
  std::vector<std::string> keys;  // files that somebody named, to be tried first
  std::string known_hosts;        // file; empty: the usual one
  UniqueFd complaints;  // what the ssh program of a jump says; libssh itself throws it away
};

bool SetOption(ssh_session session, ssh_options_e option, const std::string& value) {
  return value.empty() || ssh_options_set(session, option, value.c_str()) == SSH_OK;
}

// libssh tries these anyway; a key that is offered twice counts twice where few tries are let.
bool IsUsualKey(const std::string& file) {
  constexpr std::array<std::string_view, 7> kUsual = {"rsa",        "ecdsa", "ecdsa_sk", "ed25519",
                                                      "ed25519_sk", "xmss",  "dsa"};
  constexpr std::string_view kStart = "~/.ssh/id_";
  return file.starts_with(kStart) &&
         std::ranges::find(kUsual, std::string_view(file).substr(kStart.size())) != kUsual.end();
}

bool SetAll(ssh_session session, const SshSettings& settings) {
  const bool no = false;
  bool good = ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &no) == SSH_OK &&
              SetOption(session, SSH_OPTIONS_HOST, settings.host_name) &&
              SetOption(session, SSH_OPTIONS_USER, settings.user) &&
              SetOption(session, SSH_OPTIONS_KNOWNHOSTS, settings.known_hosts) &&
              SetOption(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, settings.system_known_hosts) &&
              SetOption(session, SSH_OPTIONS_IDENTITY_AGENT, settings.agent) &&
              SetOption(session, SSH_OPTIONS_PROXYCOMMAND, settings.proxy_command);
  if (settings.port != 0)
    good = good && ssh_options_set(session, SSH_OPTIONS_PORT, &settings.port) == SSH_OK;
  // The last one added is tried first.
  for (auto key = settings.identities.rbegin(); key != settings.identities.rend(); ++key)
    if (!IsUsualKey(*key)) good = good && SetOption(session, SSH_OPTIONS_ADD_IDENTITY, *key);
  return good;
}

bool SetJump(const Host& host, const SshOptions& options, const std::vector<std::string>& hops,
             Prepared& into) {
  into.jumps = true;
  JumpSsh ssh{options.config, WithoutTilde(host.key), options.accept_new, ""};
  into.complaints.Reset(::memfd_create("launch-jump", MFD_CLOEXEC));
  if (into.complaints)
    ssh.errors =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(into.complaints.get());
  return SetOption(into.session.get(), SSH_OPTIONS_PROXYCOMMAND, JumpCommand(hops, ssh));
}

// As OpenSSH reads the configuration; as libssh does, which knows less of it, where there is no
// ssh program.
Result<Prepared> Prepare(const Host& host, const SshOptions& options) {
  if (!options.config.empty() && ::access(options.config.c_str(), R_OK) != 0)
    return Fail(ErrorCode::kInvalidArgument,
                "ssh configuration " + options.config + " cannot be read",
                "the hosts were found by it: bring it back, or name another one with -F");
  Prepared made;
  made.session.reset(ssh_new());
  if (!made.session) return Fail(ErrorCode::kInternal, "ssh_new failed");
  ssh_session session = made.session.get();
  LAUNCH_ASSIGN_OR_RETURN(const auto settings, AskSsh(host, options.config));
  // The host first: Host and Match blocks of the configuration go by it.
  bool good = SetOption(session, SSH_OPTIONS_HOST, host.Address());
  if (settings) {
    good = good && SetAll(session, *settings);
    made.known_hosts = WithoutTilde(settings->known_hosts);
    if (made.known_hosts == WithoutTilde("~/.ssh/known_hosts")) made.known_hosts.clear();
  } else {
    const char* file = options.config.empty() ? nullptr : options.config.c_str();
    good = good && ssh_options_parse_config(session, file) == SSH_OK;
  }
  if (!host.key.empty()) made.keys.push_back(WithoutTilde(host.key));
  for (const std::string& key : settings ? settings->identities : std::vector<std::string>())
    if (!IsUsualKey(key)) made.keys.push_back(WithoutTilde(key));
  good = good && SetOption(session, SSH_OPTIONS_USER, host.user);
  if (host.port != 0)
    good = good && ssh_options_set(session, SSH_OPTIONS_PORT, &host.port) == SSH_OK;
  good = good && SetOption(session, SSH_OPTIONS_ADD_IDENTITY, WithoutTilde(host.key));
  if (!host.jump.empty()) {
    good = good && SetJump(host, options, {host.jump}, made);
  } else if (settings && !settings->hops.empty()) {
    good = good && SetJump(host, options, settings->hops, made);
  }
  const long timeout = options.timeout_s;
  const int no_delay = 1;
  const int check = 1;  // libssh takes any key where the configuration says `no`
  good = good && ssh_options_set(session, SSH_OPTIONS_STRICTHOSTKEYCHECK, &check) == SSH_OK &&
         ssh_options_set(session, SSH_OPTIONS_TIMEOUT, &timeout) == SSH_OK &&
         ssh_options_set(session, SSH_OPTIONS_NODELAY, &no_delay) == SSH_OK;
  if (!good)
    return Fail(ErrorCode::kInvalidArgument,
                "ssh options of " + NameOf(host) + ": " + Said(session),
                "look at user, port and key of this host, and at your ssh configuration");
  return made;
}

// The last line that the ssh program of a jump wrote, which names the reason.
std::string Complaint(const UniqueFd& complaints) {
  std::array<char, 4096> text;
  const ssize_t size = complaints ? ::pread(complaints.get(), text.data(), text.size(), 0) : 0;
  const std::string_view all =
      Trim({text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))});
  const std::size_t line = all.rfind('\n');
  return std::string(Trim(all.substr(line == std::string_view::npos ? 0 : line + 1)));
}

// The kernel ends a connection whose bytes nobody acknowledges, also those that wait in its
// buffers. A pipe to the ssh program of a jump has no such thing, and need not: that program asks.
void GiveUpWhenStalled(ssh_session session) {
  const int socket = ssh_get_fd(session);
  const int limit = static_cast<int>(kStalled.count());
  const int yes = 1;
  const int seconds = limit / 3000;
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
  (void)::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

Unexpected CannotConnect(const Host& host, const SshOptions& options, const Prepared& by) {
  const std::string complaint = Complaint(by.complaints);
  const std::string said = complaint.empty() ? Said(by.session.get()) : complaint;
  const auto has = [&](std::string_view text) { return said.find(text) != std::string::npos; };
  std::string hint = "try: " + ByHand(host, options);
  if (by.jumps) {
    hint = "the host that it is reached through must let you in without a question; " + hint;
  } else if (has("resolve")) {
    hint = "the name is not known here: write address: with an IP address, or a Host block";
  } else if (has("Timeout")) {
    hint =
        "it is down, or a firewall drops port " + std::to_string(host.port == 0 ? 22 : host.port);
  } else if (has("refused")) {
    hint = "no ssh server listens there: is it another port?";
  } else if (has("route")) {
    hint = "this machine has no route there: write jump: with a host that has";
  }
  return Fail(ErrorCode::kUnavailable,
              "ssh to " + NameOf(host) + (by.jumps ? " through another host: " : ": ") + said,
              hint);
}

// One that has a passphrase is left to the agent.
bool LogInBy(ssh_session session, const std::string& file) {
  ssh_key read = nullptr;
  if (ssh_pki_import_privkey_file(file.c_str(), "", nullptr, nullptr, &read) != SSH_OK)
    return false;
  const std::unique_ptr<ssh_key_struct, void (*)(ssh_key)> key(read, ssh_key_free);
  return ssh_userauth_publickey(session, nullptr, key.get()) == SSH_AUTH_SUCCESS;
}

Result<void> LogIn(ssh_session session, const Host& host, const std::vector<std::string>& keys) {
  if (ssh_userauth_none(session, nullptr) == SSH_AUTH_SUCCESS) return {};
  // Before those of an agent: a server hears six, and an agent may have more.
  for (const std::string& file : keys)
    if (LogInBy(session, file)) return {};
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
    const Channel channel = OpenChannel();
    if (!channel) return Broken();
    if (ssh_channel_request_exec(channel.get(), ForAnyLoginShell(command, as_root_).c_str()) !=
        SSH_OK)
      return Broken();
    for (std::size_t at = 0; at < input.size(); at += kPiece) {
      const auto size = static_cast<std::uint32_t>(std::min(kPiece, input.size() - at));
      if (ssh_channel_write(channel.get(), input.data() + at, size) != static_cast<int>(size))
        break;
      sent(at + size);
      watchdog_->Begin(kStalled);
    }
    watchdog_->Begin(deadline + kBeyond);
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
    return AnswerWithin(std::move(answer));
  }

  Channel OpenChannel() {
    Millis wait = kOpenAgain;
    for (int tries = 1;; ++tries) {
      Channel channel(ssh_channel_new(session_.get()));
      if (!channel || ssh_channel_open_session(channel.get()) == SSH_OK) return channel;
      const bool refused = Said(session_.get()).find("open failed") != std::string::npos;
      if (!refused || tries == kOpenTries || ssh_is_connected(session_.get()) == 0) return nullptr;
      std::this_thread::sleep_for(wait);
      wait *= 2;
    }
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

Result<std::string> AddressOf(const Host& host, const SshOptions& options) {
  if (host.local || !host.address.empty()) return host.Address();
  LAUNCH_ASSIGN_OR_RETURN(const auto settings, AskSsh(host, options.config));
  return settings && !settings->host_name.empty() ? settings->host_name : host.Address();
}

Result<std::unique_ptr<Remote>> Connect(const Host& host, const SshOptions& options) {
  static std::once_flag once;  // a static libssh has no constructor of its own
  std::call_once(once, [] { (void)ssh_init(); });
  for (int attempt = 1;; ++attempt) {
    LAUNCH_ASSIGN_OR_RETURN(Prepared prepared, Prepare(host, options));
    Session& session = prepared.session;
    if (ssh_connect(session.get()) != SSH_OK) {
      const std::string said = Said(session.get());
      const bool dropped = said.find("reset") != std::string::npos ||
                           said.find("disconnected") != std::string::npos ||
                           said.find("banner") != std::string::npos;
      if (!dropped || attempt == kTries || !Complaint(prepared.complaints).empty())
        return CannotConnect(host, options, prepared);
      std::this_thread::sleep_for(std::chrono::milliseconds(200 * attempt));
      continue;
    }
    GiveUpWhenStalled(session.get());
    LAUNCH_RETURN_IF_ERROR(CheckKey(session.get(), host, options, prepared.known_hosts));
    auto watchdog = std::make_unique<Watchdog>(ssh_get_fd(session.get()));
    watchdog->Begin(kLogIn);
    auto entered = LogIn(session.get(), host, prepared.keys);
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
