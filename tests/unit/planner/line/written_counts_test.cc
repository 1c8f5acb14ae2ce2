// What texts with launchers inside ask for: processes, nodes, devices.
#include "planner/line/written_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

using Texts = std::map<std::string, std::string>;

Result<LaunchLine> Line(const std::string& run, const Texts& files = {}, JobSpec spec = {}) {
  spec.run = run;
  spec.workdir = "/home/me/project";
  return ReadLaunchLine(run, LineOptions(spec, files));
}

Result<LaunchLine> Script(const std::string& text, JobSpec spec = {}) {
  return Line("bash train.sh", {{"train.sh", text}}, std::move(spec));
}

std::string Warning(const Result<LaunchLine>& line, const std::string& code) {
  if (!line) return line.error().message;
  const auto found = std::find_if(line->warnings.begin(), line->warnings.end(),
                                  [&](const Finding& one) { return one.code == code; });
  return found == line->warnings.end() ? "" : found->says;
}

TEST(WrittenCounts, DevicesOfAValueThatIsNotKnownAreSaid) {
  for (const char* text :
       {"export CUDA_VISIBLE_DEVICES=$(seq -s , 0 3)\ntorchrun --nproc_per_node=4 t.py\n",
        "for g in 0,1 2,3; do\n  CUDA_VISIBLE_DEVICES=$g torchrun --nproc_per_node=2 t.py\ndone\n",
        "go() { CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node=2 t.py; }\ngo 0,1\n",
        "CUDA_VISIBLE_DEVICES=$G bash inner.sh\ntorchrun --nproc_per_node=2 t.py\n"}) {
    const auto line = Script(text);
    ASSERT_TRUE(line) << text << line.error().message;
    EXPECT_FALSE(line->visible_devices) << text;
    EXPECT_NE(Warning(line, "visible_devices_set").find("as a count (unknown), and replaced"),
              std::string::npos)
        << text;
  }
  const auto counted =
      Script("export CUDA_VISIBLE_DEVICES=2,3\ntorchrun --nproc_per_node=2 t.py\n");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->visible_devices, 2);
  // Not those of another program than a launcher.
  const auto other =
      Script("CUDA_VISIBLE_DEVICES= python prep.py\ntorchrun --nproc_per_node=2 t.py\n");
  EXPECT_EQ(Warning(other, "visible_devices_set"), "");
}

}  // namespace
}  // namespace launch
