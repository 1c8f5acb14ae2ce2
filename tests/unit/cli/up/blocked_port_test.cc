#include "cli/up/blocked_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/up/this_machine.h"
#include "common/unique_fd.h"

namespace launch::up {
namespace {

namespace fs = std::filesystem;

class BlockedPort : public testing::Test {
 protected:
  BlockedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    EXPECT_EQ(::bind(socket_.get(), address, size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), address, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(::ntohs(any.sin_port));
    std::string name = fs::temp_directory_path() / "launch-port-XXXXXX";
    facts_.state = ::mkdtemp(name.data());
    facts_.keeper = Keeper::kNobody;
  }
  ~BlockedPort() override { fs::remove_all(facts_.state); }
  Error Why() { return WhyNotHeard(*ThisMachine(), facts_, "gpu07", address_, Millis{30'000}); }

  const UniqueFd socket_;  // bound, and nobody listens
  std::string address_;
  HostFacts facts_;
};

TEST_F(BlockedPort, IsNamedWithWhatAConnectionMet) {
  std::ofstream(facts_.state + "/launch-agent.log")
      << "12:00 warning link.down stream=1 controller=x why=\"no connection to x within 10 s\"\n"
         "12:01 info agent.alive\n";
  const Error why = Why();
  EXPECT_EQ(why.code, ErrorCode::kUnavailable);
  EXPECT_EQ(why.message,
            "its agent runs and has not reported for 30s: from it no connection comes about to the "
            "controller at " +
                address_ + " (Connection refused); it says: no connection to x within 10 s");
  const std::string port = address_.substr(address_.find(':') + 1);
  EXPECT_NE(why.hint.find("let gpu07 in on TCP port " + port + " of 127.0.0.1"), std::string::npos)
      << why.hint;
}

TEST_F(BlockedPort, ThatIsOpenLeavesTheAgentsWords) {
  ASSERT_EQ(::listen(socket_.get(), 1), 0);
  std::ofstream(facts_.state + "/launch-agent.log")
      << "x link.down why=\"the certificate is \\\"over\\\"\" y";
  const Error why = Why();
  EXPECT_EQ(why.message,
            "its agent runs and has not reported for 30s; it says: the certificate is "
            "\\\"over\\\"");
  EXPECT_NE(why.hint.find("launch-agent.log"), std::string::npos);
}

TEST_F(BlockedPort, SpoilsNoErrorOfAJoinThatHasAnotherReason) {
  const Error refused{ErrorCode::kFailedPrecondition,
                      "joining failed: it is revoked\n  hint: join anew", "mend it", std::nullopt};
  const auto remote = ThisMachine();
  const Error blocked = WhyNotJoined(refused, *remote, "gpu07", address_);
  EXPECT_NE(
      blocked.message.find("joining failed: it is revoked; from it no connection comes about"),
      std::string::npos);
  ASSERT_EQ(::listen(socket_.get(), 1), 0);
  EXPECT_EQ(WhyNotJoined(refused, *remote, "gpu07", address_), refused);
}

// As one whose shell greets, or that has another `timeout`.
class Chatty final : public Remote {
 public:
  explicit Chatty(std::string output) : output_(std::move(output)) {}
  Result<RemoteAnswer> Send(const std::string&, std::string_view, Millis,
                            const SentBytes&) override {
    return RemoteAnswer{.code = 1, .output = output_, .errors = {}};
  }

 private:
  const std::string output_;
};

TEST(BlockedPortOf, AHostThatPrintsWhatItLikesIsNotTakenForClosed) {
  const auto why = [](const std::string& output) {
    Chatty remote(output);
    const Error error = WhyNotHeard(remote, {}, "gpu07", "head:7470", Millis{30'000});
    return error.message + "|" + error.hint;
  };
  for (const char* said : {"Welcome to gpu07\nopen\n", "timeout: can't execute '5'\n",
                           "try: /dev/tcp/head/7470: No such file or directory\n", ""})
    EXPECT_EQ(why(said).find("no connection"), std::string::npos) << said;
  EXPECT_NE(why("Welcome\ntry: connect: No route to host\n").find("(No route to host)"),
            std::string::npos);
  const std::string unknown = why("try: head: Name or service not known\n");
  EXPECT_NE(unknown.find("(Name or service not known)"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("write address: of the head"), std::string::npos) << unknown;
}

TEST(LastReason, IsTheLastOneAndMayBeMissing) {
  EXPECT_EQ(LastReason("a link.down why=\"one\"\nb link.down x why=\"two words\" hint=\"x\"\nc\n"),
            "two words");
  EXPECT_EQ(LastReason("a link.down why=\"cut off"), "cut off");
  EXPECT_EQ(
      LastReason("a link.down why=\"of before\"\nb agent.start x\nc allocation.drop why=\"no\""),
      "");
  EXPECT_EQ(LastReason("nothing of that"), "");
}

}  // namespace
}  // namespace launch::up
