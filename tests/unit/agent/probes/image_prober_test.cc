// Images are asked for their torch once for each content, and only where they are there already.
#include "agent/probes/image_prober.h"

#include <gtest/gtest.h>

#include "agent/probes/small_files.h"
#include "tests/unit/agent/probes/settable_clock.h"
#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

class ImageProberTest : public ::testing::Test {
 protected:
  // A runtime that starts the words behind the image, where python3 answers as a CPU build.
  ImageProberTest() {
    tree.Script(
        "bin/python3",
        "[ \"$1 $3\" = '-c import' ] || exit 9\necho run >>" + tree.Path("runs") +
            "\necho hello; echo '@launch-python-probe {\"stage\":\"a\",\"python\":\"3.12.3\",'"
            "'\"packages\":{},\"torch\":{\"version\":\"2.9.0\",\"cuda\":null}}'\n"
            "echo '@launch-python-probe {\"stage\":\"b\",\"torch\":{\"version\":\"2.9.0\"},"
            "\"sees_gpu\":false}'\n");
    question.runtime = "apptainer";
    question.program = tree.Script("apptainer", "shift; exec \"$@\"\n");
    question.image = "./team.sif";
    question.file = tree.Write("team.sif", "one");
    question.argv = {question.program, "team.sif"};
    for (std::string& word : PythonInImage()) question.argv.push_back(word);
    question.env = {{"PATH", tree.Path("bin") + ":/usr/bin:/bin"}};
  }
  std::size_t Runs() const { return ReadSmallFile(tree.Path("runs")).size() / 4; }

  TemporaryTree tree;
  SettableClock clock;
  ImageProber prober{clock};
  ImageQuestion question;
};

TEST_F(ImageProberTest, TellsTheTorchOfTheImageAndRemembersItByContent) {
  const auto facts = prober.Ask(question, std::nullopt);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->path, "python3 of image ./team.sif");
  EXPECT_EQ(facts->python, "3.12.3");
  ASSERT_TRUE(facts->torch);
  EXPECT_EQ(facts->torch->version, "2.9.0");
  EXPECT_FALSE(facts->torch->cuda);
  EXPECT_EQ(facts->sees_gpu, false);
  EXPECT_EQ(prober.Ask(question, std::nullopt), facts);
  EXPECT_EQ(Runs(), 1u);
  prober.SetDriver("580.1");
  (void)prober.Ask(question, std::nullopt);
  EXPECT_EQ(Runs(), 2u) << "another driver";
  std::filesystem::rename(tree.Write("new.sif", "two"), question.file);
  (void)prober.Ask(question, std::nullopt);
  EXPECT_EQ(Runs(), 3u) << "another image of the same name";
  clock.Advance(Millis{25 * 60 * 60 * 1000});
  (void)prober.Ask(question, std::nullopt);
  EXPECT_EQ(Runs(), 4u) << "a day later";
}

TEST_F(ImageProberTest, StartsNoContainerOfAnImageThatIsNotThere) {
  std::filesystem::remove(question.file);
  EXPECT_FALSE(prober.Ask(question, std::nullopt));
  question.file.clear();
  EXPECT_FALSE(prober.Ask(question, std::nullopt));
  question.runtime = "docker";
  question.program = tree.Script("docker", "exit 1\n");
  EXPECT_FALSE(prober.Ask(question, std::nullopt));
  EXPECT_EQ(Runs(), 0u);
  tree.Script("docker", "[ \"$1 $2 $5\" = 'image inspect ./team.sif' ] && echo sha256:12\n");
  EXPECT_TRUE(prober.Ask(question, std::nullopt));
  EXPECT_EQ(Runs(), 1u);
}

TEST_F(ImageProberTest, AnImageWithoutPythonIsNotKnown) {
  tree.Script("bin/python3", "exit 1\n");
  EXPECT_FALSE(prober.Ask(question, std::nullopt));
}

}  // namespace
}  // namespace launch::agent
