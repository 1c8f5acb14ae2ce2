#include <gtest/gtest.h>

#include "cli/redaction.h"
#include "cli/tar_file.h"

namespace launch {
namespace {

JobView JobWithSecrets() {
  JobView job;
  job.spec = JobSpec{};
  job.spec->env = {{"WANDB_API_KEY", "0123456789abcdef"}, {"STEPS", "1200000"}};
  job.spec->secrets = {"LICENCE"};
  AttemptView attempt;
  attempt.env = {{"LICENCE", "blue-green-red"}, {"HF_TOKEN", "abc"}, {"STEPS", "1200000"}};
  job.attempts.push_back(attempt);
  return job;
}

TEST(Redaction, RemovesTheValuesOfSecretsWhereverTheyStand) {
  const Redaction redaction(JobWithSecrets());
  EXPECT_EQ(redaction.Clean("key 0123456789abcdef, blue-green-red; 1200000 steps"),
            "key [removed], [removed]; 1200000 steps");
}

TEST(Redaction, RemovesThemFromTheJobHoweverShort) {
  const JobView job = Redaction(JobWithSecrets()).Clean(JobWithSecrets());
  EXPECT_EQ(job.attempts[0].env.at("HF_TOKEN"), "[removed]");
  EXPECT_EQ(job.attempts[0].env.at("LICENCE"), "[removed]");
  EXPECT_EQ(job.attempts[0].env.at("STEPS"), "1200000");
  EXPECT_EQ(job.spec->env[0].value, "[removed]");
  EXPECT_EQ(job.spec->env[1].value, "1200000");
}

TEST(Redaction, KnowsTokensAndPasswordsByTheirForm) {
  const Redaction redaction{JobView{}};
  EXPECT_EQ(redaction.Clean("using hf_abcdefghijklmnopqrstuv now"), "using hf_[removed] now");
  EXPECT_EQ(redaction.Clean("Authorization: Bearer abc.def-ghi_jkl.mnop"),
            "Authorization: Bearer [removed]");
  EXPECT_EQ(redaction.Clean("git clone https://ana:pa55@host/x"),
            "git clone https://ana:[removed]@host/x");
  EXPECT_EQ(redaction.Clean("export DB_PASSWORD='x y'"), "export DB_PASSWORD='[removed]'");
  EXPECT_EQ(redaction.Clean("MY_TOKEN=1 --lr=0.1"), "MY_TOKEN=[removed] --lr=0.1");
}

TEST(Redaction, RemovesTheValuesThatTheCallerStillHas) {
  JobView job;
  job.spec = JobSpec{};
  job.spec->secrets = {"LICENCE", "PEM", "OTHER"};
  const Redaction redaction(
      job, {{"LICENCE", "blue \"green\" red/9"}, {"PEM", "first line of key\nsecond line of key"}});
  EXPECT_EQ(redaction.Clean("using blue \"green\" red/9."), "using [removed].");
  EXPECT_EQ(redaction.Clean(R"({"m": "blue \"green\" red/9"})"), R"({"m": "[removed]"})");
  EXPECT_EQ(redaction.Clean("?q=blue%20%22green%22%20red%2F9"), "?q=[removed]");
  EXPECT_EQ(redaction.Clean("> second line of key"), "> [removed]");
  EXPECT_EQ(redaction.Clean("OTHER=x and OTHER: y"), "OTHER=[removed] and OTHER: [removed]");
  EXPECT_EQ(redaction.unknown(), std::vector<std::string>{"OTHER"});
}

TEST(Redaction, KnowsWhatANameSays) {
  const Redaction redaction{JobView{}};
  const std::pair<const char*, const char*> cases[] = {
      {"DB_PASSWORD: letmein9", "DB_PASSWORD: [removed]"},
      {"password=letmein9, user=ana", "password=[removed], user=ana"},
      {R"({"apiKey": "abcdefgh", "n": 1})", R"({"apiKey": "[removed]", "n": 1})"},
      {R"({\"api_key\": \"abcdefgh\"})", R"({\"api_key\": \"[removed]\"})"},
      {"train.py --hf-token abcdefgh --lr 1", "train.py --hf-token [removed] --lr 1"},
      {"train.py --hf_token=abcdefgh --lr 1", "train.py --hf_token=[removed] --lr 1"},
      {R"(["--api-key", "abcdefgh", "--lr"])", R"(["--api-key", "[removed]", "--lr"])"},
      {"wandb: secret = 'a b c d e f'", "wandb: secret = '[removed]'"},
      {"Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l", "Authorization: Basic [removed]"},
  };
  for (const auto& [text, clean] : cases) EXPECT_EQ(redaction.Clean(text), clean);
}

TEST(Redaction, LeavesOrdinaryTextAlone) {
  const Redaction redaction{JobView{}};
  for (const char* text :
       {"step 10 loss=0.5", "task-force-alpha-and-some-more", "hf_short",
        "see https://host:8080/path", "a == b", "=", "tokens: 51200000", "tokenizer=gpt2-medium",
        "author: ana-maria", "max_tokens=1000000", "pad_token: 50256.5", "use_auth: true",
        "key: value-of-it", "the secret of good training", "pass --token to login", "secret:"}) {
    EXPECT_EQ(redaction.Clean(text), text);
  }
}

TEST(TarFile, ComesBackWhole) {
  const TarEntries entries = {{"README", "hello\n"},
                              {"a/empty", ""},
                              {"a/b", std::string(512, 'x')},
                              {"a/c", std::string("\0\xff\n", 3) + std::string(513, 'y')}};
  const std::string tar = MakeTar(entries);
  EXPECT_EQ(tar.size() % 512, 0u);
  EXPECT_TRUE(LooksLikeTar(tar));
  const auto read = ReadTar(tar);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, entries);
}

TEST(TarFile, DamageIsNamed) {
  std::string tar = MakeTar({{"README", "hello\n"}, {"log", std::string(2000, 'x')}});
  EXPECT_FALSE(ReadTar(std::string_view(tar).substr(0, 1800)).has_value());
  tar[3] = '!';
  const auto read = ReadTar(tar);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("damaged"), std::string::npos);
  EXPECT_FALSE(LooksLikeTar("CUDA out of memory"));
}

}  // namespace
}  // namespace launch
