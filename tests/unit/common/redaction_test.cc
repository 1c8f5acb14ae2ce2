// What leaves the cluster, or is shown to others, holds no secret of the job.
#include "common/redaction.h"

#include <gtest/gtest.h>

#include "common/secret_text.h"

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
  EXPECT_EQ(redaction.Clean("https://tokonly99887766@github.com/x"),
            "https://[removed]@github.com/x");
  EXPECT_EQ(redaction.Clean("postgres://u:p@ss/w0rd@host/db"), "postgres://u:[removed]@host/db");
  EXPECT_EQ(redaction.Clean("postgres://u:p@ss@host/db"), "postgres://u:[removed]@host/db");
  EXPECT_EQ(redaction.Clean("redis://:pw123@host:6379/0"), "redis://:[removed]@host:6379/0");
  EXPECT_EQ(redaction.Clean("AIzaSyA1234567890abcdefghijk"), "AIza[removed]");
  EXPECT_EQ(redaction.Clean("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nAbCd\n-----END RSA"),
            "-----BEGIN RSA PRIVATE KEY-----[removed]-----END RSA");
  EXPECT_EQ(redaction.Clean("-----BEGIN PRIVATE KEY-----\nMIIE cut"),
            "-----BEGIN PRIVATE KEY-----[removed]");
  EXPECT_EQ(redaction.Clean("export DB_PASSWORD='x y'"), "export DB_PASSWORD='[removed]'");
  EXPECT_EQ(redaction.Clean("MY_TOKEN=1 --lr=0.1"), "MY_TOKEN=[removed] --lr=0.1");
}

// What two ranks of one bundle share is seen, what it is cannot be tried out.
TEST(Redaction, ASaltMakesMarksOfItsOwn) {
  Redaction one(JobWithSecrets());
  one.MarkWith("salt");
  const std::string text = one.Clean("0123456789abcdef and blue-green-red");
  ASSERT_EQ(text.size(), 2 * std::string("[removed]#123456").size() + 5) << text;
  EXPECT_TRUE(text.starts_with("[removed]#")) << text;
  const std::string mark = text.substr(0, 16);
  EXPECT_NE(text.substr(21), mark) << "another secret";
  EXPECT_EQ(one.Clean("0123456789abcdef"), mark);
  EXPECT_EQ(one.Clean("MDEyMzQ1Njc4OWFiY2RlZg=="), mark + "==") << "in base64";
  EXPECT_EQ(one.Clean(text), text) << "marks stay";
  const JobView job = one.Clean(JobWithSecrets());
  EXPECT_EQ(job.spec->env[0].value, mark);
  EXPECT_EQ(one.Clean("WANDB_API_KEY: " + mark), "WANDB_API_KEY: " + mark);
  EXPECT_EQ(one.Clean("https://ana:" + mark + "@host"), "https://ana:" + mark + "@host");
  EXPECT_TRUE(one.Clean("python t.py --api-key k33p-out-of-this")
                  .starts_with("python t.py --api-key [removed]#"));

  Redaction other(JobWithSecrets());
  other.MarkWith("another");
  EXPECT_NE(other.Clean("0123456789abcdef"), mark);
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

TEST(Redaction, KnowsValuesHoweverTheyAreSpelt) {
  const Redaction redaction({"LICENCE"}, {{"LICENCE", "blue green/red"},
                                          {"DB_URL", "postgres://bob:s3cr3t%20pw@db/x"},
                                          {"MAX_TOKENS", "1048576"}});
  EXPECT_EQ(redaction.Clean("Ymx1ZSBncmVlbi9yZWQ= blue%20green%2Fred"), "[removed]= [removed]");
  EXPECT_EQ(redaction.Clean("login with s3cr3t%20pw failed"), "login with [removed] failed");
  EXPECT_EQ(redaction.Clean("1048576 tokens"), "1048576 tokens");
  EXPECT_TRUE(redaction.unknown().empty());
}

TEST(Redaction, KnowsNamesOfVariables) {
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASS", "MYPASS", "PGPASSWORD",
                           "MYSQL_PWD", "SAS", "GIT_PAT", "COMET_AUTH", "SENTRY_DSN"}) {
    EXPECT_TRUE(IsSecretName(name)) << name;
  }
  for (const char* name : {"PWD", "OLDPWD", "PATH", "STEPS", "KEYS", "COMPASSION", "CUDA_HOME"}) {
    EXPECT_FALSE(IsSecretName(name)) << name;
  }
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
      {"PGPASSWORD=pgpw123 psql", "PGPASSWORD=[removed] psql"},
      {"MYSQL_PWD: mysqlpw99", "MYSQL_PWD: [removed]"},
      {"DB_PASS=x", "DB_PASS=[removed]"},
      {R"({"pass": "passkey123", "pwd": "pwdkey123"})",
       R"({"pass": "[removed]", "pwd": "[removed]"})"},
      {"the password is plainpw321", "the password is [removed]"},
      {"Cookie: session=abc; id=7", "Cookie: [removed]"},
      {"curl -u bob:curlpw123 https://api", "curl -u bob:[removed] https://api"},
  };
  for (const auto& [text, clean] : cases) EXPECT_EQ(redaction.Clean(text), clean);
}

TEST(Redaction, LeavesOrdinaryTextAlone) {
  const Redaction redaction{JobView{}};
  for (const char* text : {"step 10 loss=0.5",
                           "task-force-alpha-and-some-more",
                           "hf_short",
                           "see https://host:8080/path",
                           "a == b",
                           "=",
                           "tokens: 51200000",
                           "tokenizer=gpt2-medium",
                           "author: ana-maria",
                           "max_tokens=1000000",
                           "pad_token: 50256.5",
                           "use_auth: true",
                           "key: value-of-it",
                           "the secret of good training",
                           "pass --token to login",
                           "secret:",
                           "pass: 100000",
                           "PWD=/home/ana/runs",
                           "tests PASS: 1234567",
                           "the token is invalid",
                           "password is required",
                           "https://host:8080/a@b",
                           "ssh://git@host/x",
                           "git@host:ana/x.git",
                           "docker run --user 1000:1000",
                           "tail -u 3",
                           "BYPASS_CACHE: enabled-here"}) {
    EXPECT_EQ(redaction.Clean(text), text);
  }
}

}  // namespace
}  // namespace launch
