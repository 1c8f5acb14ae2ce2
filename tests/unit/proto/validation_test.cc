// What the edge refuses, each with the path of the field.
#include <gtest/gtest.h>

#include <functional>

#include "proto/edge.h"
#include "tests/unit/proto/every_message.h"
#include "tests/unit/proto/fill_message.h"

namespace launch {
namespace {

using testing::Conversion;
using testing::MessageFiller;
using namespace std::string_literals;

template <class M>
M Filled() {
  M message;
  MessageFiller(5).Fill(message);
  return message;
}

// A valid message with one change is refused, and the error points at `field`.
template <class M>
void ExpectRefused(const std::string& field, const std::function<void(M&)>& change) {
  M message = Filled<M>();
  ASSERT_TRUE(Conversion<M>::Read(message).has_value());
  change(message);
  const auto value = Conversion<M>::Read(message);
  ASSERT_FALSE(value.has_value()) << "accepted a bad " << field;
  EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(value.error().where.has_value()) << value.error().message;
  EXPECT_EQ(value.error().where->field, field) << value.error().message;
  EXPECT_TRUE(value.error().message.starts_with(field + ": ")) << value.error().message;
}

template <class M>
void ExpectTaken(const std::function<void(M&)>& change) {
  M message = Filled<M>();
  change(message);
  const auto value = Conversion<M>::Read(message);
  EXPECT_TRUE(value.has_value()) << value.error().message;
}

TEST(Edge, RefusesUnsetAndUnknownEnums) {
  ExpectRefused<pb::GpuDevice>("health", [](auto& m) { m.clear_health(); });
  ExpectRefused<pb::GpuDevice>("health", [](auto& m) { m.set_health(static_cast<pb::Health>(9)); });
  ExpectRefused<pb::GpuDevice>("health",
                               [](auto& m) { m.set_health(static_cast<pb::Health>(-1)); });
  ExpectRefused<pb::NodeInventory>(
      "gpus[1].links[0].kind", [](auto& m) { m.mutable_gpus(1)->mutable_links(0)->clear_kind(); });
  ExpectRefused<pb::JobSpec>("hang.action", [](auto& m) { m.mutable_hang()->clear_action(); });
}

TEST(Edge, RefusesKeysThatNameNothing) {
  ExpectRefused<pb::AllocationSpec>("key.job", [](auto& m) { m.clear_key(); });
  ExpectRefused<pb::AllocationSpec>("key.attempt",
                                    [](auto& m) { m.mutable_key()->set_attempt(0); });
  ExpectRefused<pb::CancelRequest>("jobs[0]", [](auto& m) { m.set_jobs(0, 0); });
  ExpectRefused<pb::NoteProbeRequest>("job", [](auto& m) { m.set_job(0); });
}

TEST(Edge, RefusesAProbeThatMeasuredNothingOrTooMuch) {
  ExpectRefused<pb::ProbePoint>("micro", [](auto& m) { m.set_micro(0); });
  ExpectRefused<pb::ProbePoint>("peak_bytes", [](auto& m) { m.set_peak_bytes(0); });
  ExpectRefused<pb::ProbePoint>("peak_bytes", [](auto& m) { m.set_peak_bytes(1e30); });
  ExpectRefused<pb::ProbePoint>("load_bytes", [](auto& m) { m.set_load_bytes(-1); });
  ExpectRefused<pb::ProbePoint>("step_seconds", [](auto& m) { m.set_step_seconds(-1); });
  ExpectRefused<pb::ProbePoint>("step_seconds", [](auto& m) { m.set_step_seconds(1e308); });
  ExpectRefused<pb::MeasuredRun>("cold_peak_gib", [](auto& m) { m.set_cold_peak_gib(-1); });
}

TEST(Edge, RefusesNamesOutsideTheirAlphabet) {
  for (const std::string& bad :
       {""s, "-x"s, ".x"s, "a/b"s, "a b"s, "a\n"s, std::string(64, 'a'), "\xC3\xA4"s}) {
    ExpectRefused<pb::NodeInventory>("node", [&](auto& m) { m.set_node(bad); });
    ExpectRefused<pb::JobSpec>("nodelist[1]", [&](auto& m) { m.set_nodelist(1, bad); });
  }
  for (const std::string& bad : {""s, "GPU,1"s, "GPU 1"s, "GPU\n"s, std::string(97, 'a')}) {
    ExpectRefused<pb::RankSpec>("gpus[0]", [&](auto& m) { m.set_gpus(0, bad); });
  }
  ExpectTaken<pb::GpuDevice>([](auto& m) { m.set_uuid("MIG-GPU-1a2b/1/0"); });
}

TEST(Edge, RefusesNulInWhatReachesExecve) {
  const std::string nul = "/a\0b"s;
  ExpectRefused<pb::RankSpec>("argv[1]", [&](auto& m) { m.set_argv(1, nul); });
  ExpectRefused<pb::RankSpec>("env[1].value", [&](auto& m) { m.mutable_env(1)->set_value(nul); });
  ExpectRefused<pb::RankSpec>("env[1].name", [&](auto& m) { m.mutable_env(1)->set_name(nul); });
  ExpectRefused<pb::JobSpec>("run", [&](auto& m) { m.set_run(nul); });
  ExpectRefused<pb::JobSpec>("setup", [&](auto& m) { m.set_setup(nul); });
  ExpectRefused<pb::JobSpec>("env[0].value", [&](auto& m) { m.mutable_env(0)->set_value(nul); });
  ExpectRefused<pb::JobSpec>("workdir", [&](auto& m) { m.set_workdir(nul); });
  ExpectRefused<pb::AllocationSpec>("workdir", [&](auto& m) { m.set_workdir(nul); });
  ExpectRefused<pb::AllocationSpec>("checkpoint_dir", [&](auto& m) { m.set_checkpoint_dir(nul); });
  ExpectRefused<pb::SubmitRequest>(
      "secrets." + Filled<pb::SubmitRequest>().spec().secrets(0),
      [&](auto& m) { (*m.mutable_secrets())[m.spec().secrets(0)] = nul; });
}

TEST(Edge, RefusesVariablesThatAreNone) {
  ExpectRefused<pb::RankSpec>("env[0].name", [](auto& m) { m.mutable_env(0)->clear_name(); });
  ExpectRefused<pb::RankSpec>("env[0].name", [](auto& m) { m.mutable_env(0)->set_name("A=B"); });
  ExpectRefused<pb::RankSpec>("env", [](auto& m) { m.mutable_env()->SwapElements(0, 1); });
  ExpectRefused<pb::RankSpec>("env", [](auto& m) { *m.mutable_env(1) = m.env(0); });
  ExpectRefused<pb::JobSpec>("env", [](auto& m) { *m.mutable_env(1) = m.env(0); });
}

TEST(Edge, RefusesRelativePaths) {
  ExpectRefused<pb::JobSpec>("workdir", [](auto& m) { m.set_workdir("work"); });
  ExpectRefused<pb::JobSpec>("workdir", [](auto& m) { m.clear_workdir(); });
  ExpectRefused<pb::AllocationSpec>("interpreter", [](auto& m) { m.set_interpreter("python"); });
  ExpectRefused<pb::AllocationSpec>("ranks[0].argv[0]",
                                    [](auto& m) { m.mutable_ranks(0)->set_argv(0, "python"); });
  ExpectTaken<pb::AllocationSpec>([](auto& m) { m.mutable_ranks(0)->set_argv(0, ""); });
  ExpectRefused<pb::SubmitContext>("submit_dir", [](auto& m) { m.set_submit_dir("."); });
  ExpectRefused<pb::SubmitContext>("files", [](auto& m) {
    (*m.mutable_files())["config.json"] = std::string(kMaxContextFileBytes + 1, ' ');
  });
  for (const std::string& bad : {""s, "."s, ".."s, "a/b"s, "../x"s, std::string(256, 'f')}) {
    ExpectRefused<pb::AllocationSpec>("files[0].name",
                                      [&](auto& m) { m.mutable_files(0)->set_name(bad); });
  }
}

TEST(Edge, RefusesNumbersOutOfRange) {
  ExpectRefused<pb::PortBlock>("first", [](auto& m) { m.set_first(0); });
  ExpectRefused<pb::PortBlock>("first", [](auto& m) { m.set_first(65'536); });
  ExpectRefused<pb::PortBlock>("count", [](auto& m) { m.set_first(65'530), m.set_count(7); });
  ExpectTaken<pb::PortBlock>([](auto& m) { m.set_first(65'530), m.set_count(6); });
  ExpectRefused<pb::StopPolicy>("signal", [](auto& m) { m.set_signal(65); });
  ExpectRefused<pb::StopPolicy>("signal", [](auto& m) { m.set_signal(0); });
  ExpectRefused<pb::StopPolicy>("grace_ms", [](auto& m) { m.set_grace_ms(-1); });
  ExpectRefused<pb::NodeCount>("max", [](auto& m) { m.set_max(m.min() - 1); });
  ExpectRefused<pb::NodeCount>("min", [](auto& m) { m.set_min(0); });
  ExpectRefused<pb::JobSpec>("priority", [](auto& m) { m.set_priority(101); });
  ExpectRefused<pb::JobSpec>("batch.global", [](auto& m) { m.mutable_batch()->set_global(0); });
  ExpectRefused<pb::HostSample>("load1", [](auto& m) { m.set_load1(0.0 / 0.0); });
  ExpectRefused<pb::NodeInventory>("page_size", [](auto& m) { m.set_page_size(5'000); });
  ExpectRefused<pb::ExitReport>("exited.code", [](auto& m) { m.mutable_exited()->set_code(256); });
  ExpectRefused<pb::ExitReport>("cause", [](auto& m) { m.clear_cause(); });
}

TEST(Edge, RefusesMoreThanItsLimits) {
  ExpectRefused<pb::RankSpec>("argv[1]", [](auto& m) { m.set_argv(1, std::string(200'000, 'x')); });
  ExpectRefused<pb::RankSpec>("argv", [](auto& m) {
    for (int i = 0; i < 5'000; ++i) m.add_argv("x");
  });
  ExpectRefused<pb::JobSpec>("constraints",
                             [](auto& m) { m.set_constraints(std::string(5'000, 'x')); });
  ExpectRefused<pb::JobSpec>("progress_regex",
                             [](auto& m) { m.set_progress_regex(std::string(2'000, 'x')); });
  ExpectRefused<pb::Finding>("says", [](auto& m) { m.set_says(std::string(70'000, 'x')); });
  pb::JobSpec large = Filled<pb::JobSpec>();
  for (int i = 0; i < 3; ++i) {
    pb::EnvEntry& entry = *large.add_env();
    entry.set_name("LARGE" + std::to_string(i));
    entry.set_value(std::string(100'000, 'x'));
  }
  const auto refused = FromProto(large);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("256 KiB"), std::string::npos);
}

TEST(Edge, RefusesFieldsThatContradictEachOther) {
  ExpectRefused<pb::AllocationSpec>("gpu_indices", [](auto& m) { m.add_gpu_indices(999); });
  ExpectRefused<pb::AllocationSpec>("gpus", [](auto& m) { m.set_gpus(1, m.gpus(0)); });
  ExpectRefused<pb::AllocationSpec>("ranks", [](auto& m) { m.mutable_ranks(1)->set_rank(0); });
  ExpectRefused<pb::AllocationSpec>(
      "ranks", [](auto& m) { m.mutable_ranks(1)->set_local_rank(m.ranks(0).local_rank()); });
  ExpectRefused<pb::AllocationSpec>("ranks", [](auto& m) { m.clear_ranks(); });
  ExpectRefused<pb::AllocationSpec>("ranks",
                                    [](auto& m) { m.mutable_ranks(1)->add_gpus("GPU-other"); });
  ExpectRefused<pb::AllocationSpec>("world_size", [](auto& m) { m.set_world_size(1); });
  ExpectRefused<pb::AllocationSpec>("needs_ports", [](auto& m) {
    m.set_needs_ports(true);
    m.mutable_ranks(0)->set_rank(59'999);
  });
  ExpectRefused<pb::JobSpec>("venv", [](auto& m) {
    m.set_venv("/v");
    m.set_python("/p");
  });
  ExpectRefused<pb::CheckpointSpec>("complete_marker", [](auto& m) {
    m.set_format("marker");
    m.clear_complete_marker();
  });
  ExpectRefused<pb::CheckpointSpec>("format", [](auto& m) { m.set_format("pickle"); });
  ExpectRefused<pb::AllocationStatus>(
      "ranks", [](auto& m) { m.mutable_ranks(0)->mutable_exit()->mutable_key()->set_job(12'345); });
  ExpectRefused<pb::NodeInventory>("gpus",
                                   [](auto& m) { m.mutable_gpus(1)->set_uuid(m.gpus(0).uuid()); });
  ExpectRefused<pb::NodeInventory>("addresses[0].address",
                                   [](auto& m) { m.mutable_addresses(0)->set_address("gpu01"); });
  ExpectTaken<pb::NodeInventory>(
      [](auto& m) { m.mutable_addresses(0)->set_address("fe80::1%eth0"); });
  ExpectRefused<pb::SubmitRequest>("idempotency_key",
                                   [](auto& m) { m.set_idempotency_key("0123"); });
  ExpectRefused<pb::SubmitRequest>("secrets",
                                   [](auto& m) { (*m.mutable_secrets())["OTHER"] = "x"; });
  ExpectRefused<pb::SubmitRequest>("secrets", [](auto& m) { m.clear_secrets(); });
}

TEST(Prepare, IsRefusedWhenItsBytesAreNotThoseOfItsDigest) {
  pb::ToNode envelope;
  envelope.mutable_fence()->set_incarnation(1);
  MessageFiller(2).Fill(*envelope.mutable_prepare());
  const auto sent = FromProto(envelope);
  ASSERT_TRUE(sent.has_value()) << sent.error().message;
  EXPECT_EQ(std::get<to_node::Prepare>(sent->body).spec_bytes, envelope.prepare().spec());
  for (std::size_t at = 0; at < envelope.prepare().spec().size(); at += 7) {
    pb::ToNode damaged = envelope;
    (*damaged.mutable_prepare()->mutable_spec())[at] ^= 1;
    const auto refused = FromProto(damaged);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kDataLoss);
  }
}

TEST(Prepare, SendsTheBytesThatWerePlannedAndElseMakesThem) {
  const auto spec = FromProto(Filled<pb::AllocationSpec>());
  ASSERT_TRUE(spec.has_value());
  const std::string bytes = SerializeSpec(*spec);
  EXPECT_EQ(SerializeSpec(*spec), bytes);
  EXPECT_EQ(ParseSpec(bytes), *spec);
  to_node::Prepare prepare{.spec = *spec, .digest = DigestOfSpec(bytes)};
  const pb::ToNode made =
      ToProto(ToNodeEnvelope{.fence = {1, 1, 1}, .session = 4, .body = prepare});
  EXPECT_EQ(made.prepare().spec(), bytes);
  prepare.spec_bytes = "as planned";
  EXPECT_EQ(ToProto(ToNodeEnvelope{.fence = {}, .session = 4, .body = prepare}).prepare().spec(),
            "as planned");
}

TEST(Hello, OfAnotherProtocolNamesBoth) {
  pb::FromNode envelope;
  MessageFiller(2).Fill(*envelope.mutable_hello());
  ASSERT_TRUE(FromProto(envelope).has_value());
  envelope.mutable_hello()->set_protocol_min(2);
  envelope.mutable_hello()->set_protocol_max(3);
  const auto refused = FromProto(envelope);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnimplemented);
  EXPECT_NE(refused.error().message.find("2 to 3"), std::string::npos);
}

TEST(Protocol, TheNewestThatBothSpeakIsSpoken) {
  EXPECT_EQ(*CommonProtocol({1, 1}, {1, 1}), 1u);
  EXPECT_EQ(*CommonProtocol({1, 2}, {2, 3}), 2u);
  EXPECT_EQ(*CommonProtocol({1, 3}, {1, 2}), 2u);
  EXPECT_EQ(*CommonProtocol({2, 2}, {1, 3}), 2u);
  for (const auto& [agent, controller] :
       {std::pair<ProtocolRange, ProtocolRange>{{1, 1}, {2, 3}}, {{2, 3}, {1, 1}}}) {
    const auto common = CommonProtocol(agent, controller);
    ASSERT_FALSE(common);
    EXPECT_EQ(common.error().code, ErrorCode::kUnimplemented);
    EXPECT_NE(common.error().message.find("2 to 3"), std::string::npos);
    EXPECT_NE(common.error().hint.find("launch upgrade"), std::string::npos);
  }
}

TEST(Protocol, AKindOfMessageThatCameLaterIsKnownForOne) {
  constexpr char kField1000[] = "\xc2\x3e\x00";  // an empty message
  pb::FromNode from;
  EXPECT_FALSE(IsOfNewerKind(from)) << "nothing at all is a broken message";
  ASSERT_TRUE(from.ParseFromString(std::string(kField1000, 3)));
  EXPECT_TRUE(IsOfNewerKind(from));
  pb::ToNode to;
  ASSERT_TRUE(to.ParseFromString(std::string(kField1000, 3)));
  EXPECT_TRUE(IsOfNewerKind(to));
  to.mutable_pong()->set_n(1);
  EXPECT_FALSE(IsOfNewerKind(to));
}

TEST(Hello, SaysWhoseAccountRanksRunAsOrIsRefused) {
  pb::FromNode envelope;
  MessageFiller(2).Fill(*envelope.mutable_hello());
  const auto account = [&](const std::string& run_as) {
    envelope.mutable_hello()->set_run_as(run_as);
    const auto read = FromProto(envelope);
    return read ? std::get<from_node::Hello>(read->body).account : UserName{read.error().message};
  };
  EXPECT_EQ(account("single_user ana"), UserName{"ana"});
  EXPECT_EQ(account("multi_user"), std::nullopt);
  for (const char* bad : {"", "single_user", "single_user ", "ana", "multi_user ana"}) {
    EXPECT_NE(account(bad).value_or(UserName{}).value.find("run_as"), std::string::npos) << bad;
  }
}

TEST(Envelope, WithoutABodyIsRefused) {
  EXPECT_FALSE(FromProto(pb::FromNode()).has_value());
  pb::ToNode envelope;
  envelope.mutable_fence()->set_incarnation(1);
  EXPECT_FALSE(FromProto(envelope).has_value());
}

TEST(Submit, DigestIsTheSameAfterSomebodyWroteIntoWorkdir) {
  const SubmitCall call = *FromProto(Filled<pb::SubmitRequest>());
  SubmitCall later = call;
  later.context.host_boot_id = "another";
  ++later.context.workdir_inode;
  ++later.context.workdir_mtime_ns;
  later.context.git_commit = std::string(40, 'b');
  later.context.git_diff += "-seed = 1\n+seed = 2\n";
  later.context.snapshot = std::string(64, 'c');
  ++later.context.snapshot_files;
  ++later.context.snapshot_bytes;
  EXPECT_EQ(DigestOf(later, "key"), DigestOf(call, "key")) << "a retry by hand is the same request";
  later.context.caller_env["SEED"] = "2";
  EXPECT_NE(DigestOf(later, "key"), DigestOf(call, "key")) << "what the job runs with is asked for";
}

TEST(Submit, DigestIsOfEverythingButTheKey) {
  SubmitCall call = *FromProto(Filled<pb::SubmitRequest>());
  const std::string digest = DigestOf(call, "key");
  SubmitCall other = call;
  other.idempotency_key = std::string(32, '0');
  EXPECT_EQ(DigestOf(other, "key"), digest);
  other = call;
  other.spec.labels["x"] = "y";
  EXPECT_NE(DigestOf(other, "key"), digest);
  other = call;
  other.secrets.front().second += "x";
  EXPECT_NE(DigestOf(other, "key"), digest);
  other = call;
  EXPECT_NE(DigestOf(call, "another key"), digest) << "nobody can try secrets against it";
  other.force = !other.force;
  EXPECT_NE(DigestOf(other, "key"), digest);
}

TEST(Text, OfAnyBytesStillArrives) {
  Finding finding{.code = "torch_missing",
                  .says = "caf\xE9 \xF0\x9F\x9A\x80 \xED\xA0\x80 \xC0\x80"};
  pb::Finding m;
  ASSERT_TRUE(m.ParseFromString(ToProto(finding).SerializeAsString()));
  EXPECT_EQ(m.says(),
            "caf\xEF\xBF\xBD \xF0\x9F\x9A\x80 \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD "
            "\xEF\xBF\xBD\xEF\xBF\xBD");
  finding.evidence = std::string(100'000, 'x');
  EXPECT_TRUE(FromProto(ToProto(finding)).has_value()) << "long text is cut, not refused";
  const StagingFacts facts{.setup_tail = std::string(100'000, 'x') + "the end"};
  EXPECT_TRUE(FromProto(ToProto(facts))->setup_tail.ends_with("the end"));
}

TEST(Samples, ThatAreNoNumbersAreLeftOut) {
  const RankSample sample{.key = {JobId{1}, Attempt{1}}, .eta_s = 1.0 / 0.0};
  const auto read = FromProto(ToProto(sample));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->eta_s.has_value());
}

}  // namespace
}  // namespace launch
