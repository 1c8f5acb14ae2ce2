// Texts followed from command to command: what a script leaves running, where functions and
// branches stand, which words call a launcher.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/launch_line.h"
#include "planner/shell_text.h"
#include "planner/written_counts.h"

namespace launch {
namespace {

using Texts = std::map<std::string, std::string>;

LaunchLineOptions OptionsOf(const std::string& run, const Texts& files) {
  JobSpec spec;
  spec.run = run;
  spec.workdir = "/home/me/project";
  return LineOptions(spec, files);
}

Result<LaunchLine> Line(const std::string& run, const Texts& files = {}) {
  return ReadLaunchLine(run, OptionsOf(run, files));
}

TEST(ShellWalk, AScriptStaysForTheTrainingInItsForeground) {
  const std::string run = "bash t.sh";
  for (const char* text :
       {"CUDA_VISIBLE_DEVICES=7 trl vllm-serve --model X &\n"
        "accelerate launch grpo.py\n",
        "torchrun server.py &\nsleep_until_up\ntorchrun train.py\n",
        "torchrun train.py &\nexec tail -f log\n", "torchrun train.py &\ntime wait\n",
        "torchrun train.py &\ncommand wait\n"}) {
    const auto line = Line(run, {{"t.sh", text}});
    EXPECT_TRUE(line) << text << (line ? "" : line.error().message);
  }
  const std::string servers = "python reward_server.py &\npython train.py\n";
  JobSpec spec;
  spec.run = run;
  spec.workdir = "/w";
  spec.launcher = LauncherKind::kNode;
  const Texts files = {{"t.sh", servers}};
  EXPECT_TRUE(ReadLaunchLine(run, LineOptions(spec, files)));
  for (const char* text :
       {"python prepare.py\ntorchrun train.py &\n", "torchrun train.py &\necho started\n"}) {
    const auto line = Line(run, {{"t.sh", text}});
    ASSERT_FALSE(line) << text;
    EXPECT_NE(line.error().message.find("leaves torchrun in the background"), std::string::npos);
  }
}

TEST(ShellWalk, ATextOfRunEndsWithItsForegroundLauncher) {
  const auto served = Line("trl vllm-serve --model X &\naccelerate launch grpo.py");
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_EQ(served->shell.find("wait $!"), std::string::npos) << served->shell;
  const auto left = Line("torchrun t.py &\necho $! > pid");
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_NE(left->shell.find("wait $!"), std::string::npos) << left->shell;
}

}  // namespace
}  // namespace launch
