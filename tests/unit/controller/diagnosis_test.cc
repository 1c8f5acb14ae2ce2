// The worker that reads logs and judges: what it asks for, and what it makes of hostile answers.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <string>

#include "common/text.h"
#include "controller/diagnosis_worker.h"
#include "proto/convert_value.h"

namespace launch::controller {
namespace {

FailedRank Failed(Rank rank, int code, std::uint64_t log_end = 100) {
  FailedRank failed;
  failed.node = NodeId{"gpu1"};
  failed.exit.key = Key{JobId{7}, Attempt{2}};
  failed.exit.rank = rank;
  failed.exit.cause = Exited{code};
  failed.exit.log_end = log_end;
  return failed;
}

effect::DiagnosisWanted Wanted(std::vector<FailedRank> ranks) {
  return {.key = Key{JobId{7}, Attempt{2}}, .ranks = std::move(ranks), .secrets = {}, .env = {}};
}

// Logs by rank; remembers what was asked.
struct Logs {
  std::map<Rank, std::string> of;
  std::vector<LogsCall> calls;
  bool complete = true;

  LogReader Reader() {
    return [this](const LogsCall& call, Millis, const LogFeed& feed) {
      calls.push_back(call);
      feed(of[call.ranks.front()]);
      return complete || call.last_lines.has_value();
    };
  }
};

const CompiledSignatures& Signatures() {
  static const CompiledSignatures signatures;
  return signatures;
}

// "invalid token hf_..." is what many libraries say; the verdict is in events that all users see.
TEST(Diagnosis, RepeatsNoSecretOfTheJob) {
  Logs logs;
  logs.of[0] =
      "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
      "ValueError: bad licence blue-green-red for ana:pa55word@db, token abcdef123\n";
  effect::DiagnosisWanted wanted = Wanted({Failed(0, 1)});
  wanted.secrets = {{"LICENCE", "blue-green-red"}};
  wanted.env = {{"DB", "postgres://ana:pa55word@db"}, {"HF_TOKEN", "abcdef123"}, {"STEPS", "7"}};
  const auto verdict = Diagnose(wanted, logs.Reader(), Signatures()).verdict;
  ASSERT_TRUE(verdict.has_value());
  std::string text = verdict->cause + verdict->remedy + Joined(verdict->evidence, "\n");
  EXPECT_NE(text.find("bad licence [removed] for ana:[removed]@db"), std::string::npos) << text;
  for (const char* secret : {"blue-green-red", "pa55word", "abcdef123"}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << text;
  }
}

TEST(Diagnosis, NamesTheRankThatHasTheCauseNotTheOneThatMissedIt) {
  Logs logs;
  logs.of[0] = "[rank0]: Connection closed by remote peer\n";
  logs.of[1] = "ModuleNotFoundError: No module named 'flash_attn'\n";
  const event::Diagnosed diagnosed =
      Diagnose(Wanted({Failed(0, 1), Failed(1, 1)}), logs.Reader(), Signatures());
  EXPECT_EQ(diagnosed.key, (Key{JobId{7}, Attempt{2}}));
  ASSERT_TRUE(diagnosed.verdict.has_value());
  EXPECT_EQ(diagnosed.verdict->label, "python_import");
  EXPECT_EQ(diagnosed.verdict->rank, 1);
  EXPECT_EQ(diagnosed.verdict->node, NodeId{"gpu1"});
}

TEST(Diagnosis, ReadsBothEndsOfALargeLogAndTheLastOfOneThatComesTooSlowly) {
  Logs logs;
  Diagnose(Wanted({Failed(0, 1, 1ULL << 40)}), logs.Reader(), Signatures());
  ASSERT_EQ(logs.calls.size(), 2u);
  EXPECT_FALSE(logs.calls[0].last_lines.has_value());
  EXPECT_TRUE(logs.calls[1].last_lines.has_value());

  Logs slow;
  slow.complete = false;
  Diagnose(Wanted({Failed(0, 1)}), slow.Reader(), Signatures());
  ASSERT_EQ(slow.calls.size(), 2u);
  EXPECT_FALSE(slow.calls[0].last_lines.has_value());
  EXPECT_TRUE(slow.calls[1].last_lines.has_value());
}

// What a run dies of is often followed by more dumps than anybody reads.
TEST(Diagnosis, TheBeginningOfALargeLogIsReadUpToAMegabyteOrSo) {
  std::uint64_t fed = 0;
  const LogReader reader = [&](const LogsCall& call, Millis, const LogFeed& feed) {
    if (call.last_lines) return feed("heartbeat\n");
    bool wanted = feed("ModuleNotFoundError: No module named 'flash_attn'\n");
    const std::string dump(1 << 20, '.');
    for (; wanted && fed < (1ULL << 30); fed += dump.size()) wanted = feed(dump);
    return wanted;
  };
  const auto diagnosed = Diagnose(Wanted({Failed(0, 1, 1ULL << 30)}), reader, Signatures());
  ASSERT_TRUE(diagnosed.verdict.has_value());
  EXPECT_EQ(diagnosed.verdict->label, "python_import");
  EXPECT_LT(fed, 16ULL << 20);
}

TEST(Diagnosis, NumbersThatNoStoreTakesDoNotCostTheVerdict) {
  Logs logs;
  logs.of[0] =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + std::string(400, '9') +
      " GiB. GPU 0 has a total capacity of 44.53 GiB of which 3.84 GiB is free.\n\xff\xfe\n";
  const event::Diagnosed diagnosed = Diagnose(Wanted({Failed(0, 1)}), logs.Reader(), Signatures());
  ASSERT_TRUE(diagnosed.verdict.has_value());
  EXPECT_EQ(diagnosed.verdict->label.substr(0, 8), "cuda_oom");
  EXPECT_TRUE(FromProto(ToProto(*diagnosed.verdict)).has_value());
}

TEST(Diagnosis, AGoodEndHasNone) {
  Logs logs;
  EXPECT_FALSE(Diagnose(Wanted({Failed(0, 0)}), logs.Reader(), Signatures()).verdict.has_value());
  EXPECT_FALSE(Diagnose(Wanted({}), logs.Reader(), Signatures()).verdict.has_value());
}

TEST(Diagnosis, TheWorkerAnswersEachQuestionOnce) {
  Logs logs;
  std::promise<event::Diagnosed> answered;
  DiagnosisWorker worker(logs.Reader(), [&](event::Diagnosed one) { answered.set_value(one); });
  worker.Want(Wanted({Failed(0, 3)}));
  const event::Diagnosed diagnosed = answered.get_future().get();
  ASSERT_TRUE(diagnosed.verdict.has_value());
  EXPECT_EQ(diagnosed.verdict->label, "unknown");
}

TEST(Diagnosis, AStopDoesNotWaitForALogThatDoesNotCome) {
  std::promise<void> reading;
  DiagnosisWorker worker(
      [&](const LogsCall&, Millis, const LogFeed& feed) {
        reading.set_value();
        while (feed({})) std::this_thread::yield();
        return false;
      },
      [](event::Diagnosed) { ADD_FAILURE() << "nobody waits for it"; });
  worker.Want(Wanted({Failed(0, 1)}));
  reading.get_future().wait();
  worker.Stop();
}

}  // namespace
}  // namespace launch::controller
