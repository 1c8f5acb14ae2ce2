#include "cli/up/install.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/up/this_machine.h"
#include "common/pki.h"

namespace launch::up {
namespace {

namespace fs = std::filesystem;

// This machine, and how many bytes it was sent.
class Counted final : public Remote {
 public:
  Result<RemoteAnswer> Send(const std::string& command, std::string_view input, Millis deadline,
                            const SentBytes& sent) override {
    bytes_ += input.size();
    return here_->Send(command, input, deadline, sent);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::unique_ptr<Remote> here_ = ThisMachine();
  std::uint64_t bytes_ = 0;
};

class Install : public testing::Test {
 protected:
  Install() {
    std::string name = fs::temp_directory_path() / "launch-install-XXXXXX";
    dir_ = ::mkdtemp(name.data());
  }
  ~Install() override { fs::remove_all(dir_); }

  Program Make(const std::string& name, const std::string& text) {
    const std::string path = dir_ / ("here-" + name + "-" + Sha256Hex(text).substr(0, 8));
    std::ofstream(path) << text;
    return {name, path, Sha256Hex(text), text.size()};
  }
  Release Of(const std::string& id, const std::string& agent, const std::string& shim) {
    Release release{id, {Make("launch-agent", agent), Make("launch-shim", shim)}, 0};
    for (const Program& program : release.programs) release.bytes += program.bytes;
    return release;
  }
  HostFacts Facts(const std::string& host, const std::string& installed) {
    HostFacts facts;
    facts.uid = 1000;
    facts.programs = dir_ / "share" / host;
    facts.state = dir_ / "state" / host;
    facts.installed = installed;
    return facts;
  }
  std::string Read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path dir_;
  SharedHomes homes_;
  const SentOf ignored_ = [](std::uint64_t, std::uint64_t) {};
};

TEST_F(Install, SendsOnlyThePartsOfARelease_ThatTheHostHasNowhere) {
  Counted remote;
  const auto first =
      up::Install(remote, Facts("gpu1", ""), Of("aaaa", "agent 1", "the shim"), homes_, ignored_);
  ASSERT_TRUE(first) << FormatError(first.error());
  EXPECT_EQ(first->sent, 15u);
  const auto second = up::Install(remote, Facts("gpu1", "aaaa"),
                                  Of("bbbb", "agent two", "the shim"), homes_, ignored_);
  ASSERT_TRUE(second) << FormatError(second.error());
  EXPECT_TRUE(second->changed);
  EXPECT_EQ(second->sent, 9u);
  EXPECT_EQ(remote.bytes(), 24u);
  const fs::path releases = dir_ / "share/gpu1/releases";
  EXPECT_EQ(Read(dir_ / "share/gpu1/current/launch-agent"), "agent two");
  EXPECT_EQ(fs::hard_link_count(releases / "aaaa/launch-shim"), 2u);
  const auto again = up::Install(remote, Facts("gpu1", "bbbb"), Of("bbbb", "agent two", "the shim"),
                                 homes_, ignored_);
  ASSERT_TRUE(again && !again->changed);
}

TEST_F(Install, AFileThatWasDamagedSinceIsNotTakenAgain) {
  Counted remote;
  ASSERT_TRUE(
      up::Install(remote, Facts("gpu1", ""), Of("aaaa", "agent 1", "the shim"), homes_, ignored_));
  std::ofstream(dir_ / "share/gpu1/releases/aaaa/launch-shim") << "THE SHIM";
  const auto second = up::Install(remote, Facts("gpu1", "aaaa"), Of("bbbb", "agent 2", "the shim"),
                                  homes_, ignored_);
  ASSERT_TRUE(second) << FormatError(second.error());
  EXPECT_EQ(second->sent, 15u);
  EXPECT_EQ(Read(dir_ / "share/gpu1/current/launch-shim"), "the shim");
}

// A machine whose shell says something else to one kind of command.
class Answering final : public Remote {
 public:
  Answering(std::string to, std::string with) : to_(std::move(to)), with_(std::move(with)) {}
  Result<RemoteAnswer> Send(const std::string& command, std::string_view input, Millis deadline,
                            const SentBytes& sent) override {
    if (command.find(to_) != std::string::npos) return RemoteAnswer{0, with_, ""};
    return here_->Send(command, input, deadline, sent);
  }

 private:
  const std::unique_ptr<Remote> here_ = ThisMachine();
  const std::string to_;
  const std::string with_;
};

TEST_F(Install, AnAnswerThatIsNoneOfTheKnownOnesIsAnError_AndCurrentIsAsItWas) {
  Counted first;
  ASSERT_TRUE(
      up::Install(first, Facts("gpu1", ""), Of("aaaa", "agent 1", "shim"), homes_, ignored_));
  const std::pair<const char*, const char*> cases[] = {{"take launch-shim", "Welcome\nmissing\n"},
                                                       {"take launch-shim", "same\n"}};
  for (const auto& [to, with] : cases) {
    Answering remote(to, with);
    const auto done = up::Install(remote, Facts("gpu1", "aaaa"), Of("bbbb", "agent 2", "other"),
                                  homes_, ignored_);
    ASSERT_FALSE(done) << with;
    EXPECT_NE(done.error().message.find("launch-shim"), std::string::npos) << done.error().message;
    EXPECT_EQ(fs::read_symlink(dir_ / "share/gpu1/current"), "releases/aaaa");
  }
}

TEST_F(Install, HostsThatShareAHomeGetItOnce) {
  const Release release = Of("aaaa", "agent 1", "the shim");
  std::vector<std::uint64_t> sent(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    threads.emplace_back([&, i] {
      Counted remote;
      HostFacts facts = Facts("gpu" + std::to_string(i), "");
      facts.home = "12 /home/ana";
      if (const auto done = up::Install(remote, facts, release, homes_, ignored_))
        sent[i] = done->sent;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    total += sent[i];
    EXPECT_EQ(Read(dir_ / "share" / ("gpu" + std::to_string(i)) / "current/launch-agent"),
              "agent 1");
  }
  EXPECT_EQ(total, release.bytes);
}

TEST_F(Install, OldReleasesGo_ButNotTheOneBeforeNorOneThatRuns) {
  Counted remote;
  for (const char* id : {"aaaa", "bbbb", "cccc", "dddd"})
    ASSERT_TRUE(up::Install(remote, Facts("gpu1", ""), Of(id, std::string("agent ") + id, "s"),
                            homes_, ignored_));
  const fs::path releases = dir_ / "share/gpu1/releases";
  // A process of aaaa, which is there when it has given back a byte.
  fs::remove(releases / "aaaa/launch-shim");
  fs::copy_file("/bin/cat", releases / "aaaa/launch-shim");
  int to[2], from[2];
  ASSERT_TRUE(::pipe2(to, O_CLOEXEC) == 0 && ::pipe2(from, O_CLOEXEC) == 0);
  const std::string program = releases / "aaaa/launch-shim";
  const pid_t runs = ::fork();
  if (runs == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    ::execl(program.c_str(), "launch-shim", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  char byte = 'x';
  ASSERT_EQ(::write(to[1], &byte, 1), 1);
  ASSERT_EQ(::read(from[0], &byte, 1), 1);
  ASSERT_TRUE(RemoveOldReleases(remote, Facts("gpu1", "cccc"), Of("dddd", "agent dddd", "s")));
  EXPECT_TRUE(fs::exists(releases / "aaaa"));
  EXPECT_FALSE(fs::exists(releases / "bbbb"));
  EXPECT_TRUE(fs::exists(releases / "cccc"));
  EXPECT_TRUE(fs::exists(releases / "dddd"));
  ::close(to[1]);
  ::close(from[0]);
  ::waitpid(runs, nullptr, 0);
  const auto removed =
      RemoveOldReleases(remote, Facts("gpu1", "cccc"), Of("dddd", "agent dddd", "s"));
  ASSERT_TRUE(removed) << FormatError(removed.error());
  EXPECT_EQ(*removed, 1);
  EXPECT_FALSE(fs::exists(releases / "aaaa"));
}

}  // namespace
}  // namespace launch::up
