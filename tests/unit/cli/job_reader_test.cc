#include "cli/job_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/job_fields.h"

namespace launch {
namespace {

Result<ReadJob> Read(const std::string& text, const std::vector<JobOverride>& overrides = {}) {
  return ReadJobText(text, "job.yaml", "/home/ana/project", overrides, "/home/ana");
}

JobSpec Spec(const std::string& text) {
  const Result<ReadJob> job = Read(text + "\nrun: python train.py\n");
  EXPECT_TRUE(job) << (job ? "" : FormatError(job.error()));
  return job ? job->spec : JobSpec();
}

Error Refusal(const std::string& text) {
  const Result<ReadJob> job = Read(text + "\nrun: python train.py\n");
  EXPECT_FALSE(job) << "was accepted: " << text;
  return job ? Error() : job.error();
}

TEST(JobReader, FourLinesAreEnough) {
  const auto job =
      Read("name: sft-8b\nnodes: 2\ngpus: GH200:1\nrun: python train.py --config cfg.yaml\n");
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.name, "sft-8b");
  EXPECT_EQ(job->spec.nodes, (NodeCount{2, 2, false}));
  EXPECT_EQ(job->spec.gpus, (std::vector<GpuRequest>{{"GH200", 1}}));
  EXPECT_TRUE(job->spec.gpus_written);
  EXPECT_EQ(job->spec.run, "python train.py --config cfg.yaml");
  EXPECT_EQ(job->spec.workdir, "/home/ana/project");
  EXPECT_TRUE(job->notices.empty());
}

TEST(JobReader, NodesThatAreNotWrittenComeFromTheLine) {
  const auto line = Read("run: torchrun --nnodes 2 --nproc_per_node 1 train.py\n");
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_EQ(line->spec.nodes, (NodeCount{2, 2, false}));
  const auto written = Read("num_nodes: 4\nrun: torchrun --nnodes 2 --nproc_per_node 1 train.py\n");
  ASSERT_TRUE(written) << FormatError(written.error());
  EXPECT_EQ(written->spec.nodes, (NodeCount{4, 4, false}));
}

TEST(JobReader, NodesThatAreNotWrittenComeFromAFileThatTheLineNamesToo) {
  std::string dir = (std::filesystem::temp_directory_path() / "job-XXXXXX").string();
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  std::ofstream(dir + "/two.yaml") << "distributed_type: MULTI_GPU\nnum_machines: 2\n"
                                      "num_processes: 16\n";
  const std::string text = "run: accelerate launch --config_file two.yaml train.py\n";
  const auto read = [&](const std::string& more, const std::vector<JobOverride>& overrides = {}) {
    const auto job = ReadJobText(more + text, "job.yaml", dir, overrides, "/");
    EXPECT_TRUE(job) << (job ? "" : FormatError(job.error()));
    return job ? job->spec.nodes : NodeCount();
  };
  EXPECT_EQ(read(""), (NodeCount{2, 2, false}));
  EXPECT_EQ(read("nodes: 3\n"), (NodeCount{3, 3, false}));
  EXPECT_EQ(read("", {{"nodes", "4", "--nodes"}}), (NodeCount{4, 4, false}));
  std::filesystem::remove_all(dir);
}

TEST(JobReader, ReadsTheJobOfStoryTwo) {
  const JobSpec spec = Spec(R"(name: paper_r64
device: cpu
gpus: 0
nodes: 2
procs_per_node: 1
venv: ./venv
batch: {global: 64, micro: 8}
checkpoint: {dir: out, resume: auto}
retry: {max: 1, recover_on_exit_codes: [33]})");
  EXPECT_EQ(spec.device, DeviceChoice::kCpu);
  EXPECT_EQ(spec.gpus, (std::vector<GpuRequest>{{"", 0}}));
  EXPECT_EQ(spec.procs_per_node, 1);
  EXPECT_EQ(spec.venv, "/home/ana/project/venv");
  EXPECT_EQ(spec.batch.global, 64);
  EXPECT_EQ(spec.batch.micro, 8);
  EXPECT_FALSE(spec.batch.accumulate);
  EXPECT_EQ(spec.checkpoint.dir, "out");
  EXPECT_TRUE(spec.checkpoint.resume);
  EXPECT_EQ(spec.retry.max, 1);
  EXPECT_EQ(spec.retry.recover_on_exit_codes, (std::vector<int>{33}));
}

TEST(JobReader, RefusesAPatternThatTheNodesCouldNotUse) {
  for (const auto& [pattern, why] : std::vector<std::pair<std::string, std::string>>{
           {"step (", "is no pattern: missing ): step ("},
           {"(?=x)step", "is no pattern: invalid perl operator: (?="},
           {R"(step \d+)", "has no group for the step"}}) {
    const auto read = Read("run: python a.py\nprogress: {regex: '" + pattern + "'}\n");
    ASSERT_FALSE(read) << pattern;
    EXPECT_NE(FormatError(read.error()).find(why), std::string::npos) << FormatError(read.error());
    EXPECT_EQ(read.error().where->line, 2);
  }
}

TEST(JobReader, ReadsEveryBlockOfThisVersion) {
  const JobSpec spec = Spec(R"(nodes: 2..4
gpus: [H100:8, A100-80GB:8]
cpus: 32+
memory: 200GB+
shm_size: 16GB
arch: arm64
constraints: "cc>=8.0 && driver>=550"
exclude_nodes: gpu[07,09]
nodelist: [gpu01, "gpu[02-03]"]
setup: pip install -r requirements.txt
launcher: process
env: {WANDB_PROJECT: sft, HF_TOKEN: }
secrets: [HF_TOKEN]
strategy: zero2-offload
precision: bf16
model: {params: 8B, layers: 32, lora: {rank: 64, targets: [q, v]}, activation_checkpointing: true}
dataset: {samples: 2500, epochs: 3}
checkpoint: {signal: USR1@120s}
retry: {on_events: [hang, oom], backoff: 30s, no_progress_max: 3}
on_oom: replan
time: 12h
stop_duration: 30s
hang: {after: 5m, action: none}
preflight: {level: full, network: require}
priority: 70
logs: {split: true, cap: 1GiB}
progress: {regex: 'step (\d+)/(\d+)'}
labels: {paper: iclr})");
  EXPECT_EQ(spec.nodes, (NodeCount{2, 4, false}));
  EXPECT_EQ(spec.gpus, (std::vector<GpuRequest>{{"H100", 8}, {"A100-80GB", 8}}));
  EXPECT_EQ(spec.cpus, (Amount{32, true}));
  EXPECT_EQ(spec.memory_bytes, (Amount{200'000'000'000, true}));
  EXPECT_EQ(spec.shm_bytes, 16'000'000'000u);
  EXPECT_EQ(spec.arch, Arch::kAarch64);
  EXPECT_EQ(spec.exclude_nodes, (std::vector<std::string>{"gpu07", "gpu09"}));
  EXPECT_EQ(spec.nodelist, (std::vector<std::string>{"gpu01", "gpu02", "gpu03"}));
  EXPECT_EQ(spec.env,
            (std::vector<EnvEntry>{{"WANDB_PROJECT", "sft"}, {"HF_TOKEN", std::nullopt}}));
  EXPECT_EQ(spec.strategy, Strategy::kZero2);
  EXPECT_EQ(spec.offload, Offload::kOptimizer);
  EXPECT_EQ(spec.precision, Precision::kBf16);
  EXPECT_EQ(spec.model.fields,
            (std::map<std::string, std::string>{{"params", "8B"},
                                                {"layers", "32"},
                                                {"lora.rank", "64"},
                                                {"lora.targets", "q,v"},
                                                {"activation_checkpointing", "true"}}));
  EXPECT_EQ(spec.dataset, (DatasetSpec{2500, 3}));
  EXPECT_EQ(spec.checkpoint.signal, 10);
  EXPECT_EQ(spec.checkpoint.signal_before, Millis(120'000));
  EXPECT_EQ(spec.retry.on_events, (std::vector<std::string>{"hang", "oom"}));
  EXPECT_EQ(spec.retry.backoff, Millis(30'000));
  EXPECT_EQ(spec.on_oom, OnOom::kReplan);
  EXPECT_EQ(spec.time_limit, Millis(12 * 3600 * 1000));
  EXPECT_EQ(spec.hang, (HangSpec{Millis(300'000), HangAction::kNone}));
  EXPECT_EQ(spec.preflight, PreflightLevel::kFull);
  EXPECT_EQ(spec.preflight_network, NetworkCheck::kRequire);
  EXPECT_EQ(spec.priority, 70);
  EXPECT_TRUE(spec.logs.split);
  EXPECT_EQ(spec.progress_regex, R"(step (\d+)/(\d+))");
}

struct AliasCase {
  const char* text;
  const char* notice;  // must occur
};

TEST(JobReader, AcceptsTheWordsOfOtherLaunchersWithANotice) {
  const AliasCase cases[] = {{"num_nodes: 3", "`num_nodes` is read as `nodes`"},
                             {"nnodes: 3", "`nodes`"},
                             {"num_machines: 3", "`nodes`"},
                             {"numNodes: 3", "`nodes`"},
                             {"accelerators: {H100: 8}", "`gpus`"},
                             {"gres: gpu:h100:8", "`gpus`"},
                             {"nproc_per_node: 4", "`procs_per_node`"},
                             {"train_batch_size: 64", "`batch.global`"},
                             {"gradient_accumulation_steps: 4", "`batch.accumulate`"},
                             {"max_restarts: 3", "`retry.max`"},
                             {"envs: {A: b}", "`env`"},
                             {"working_dir: x", "`workdir`"},
                             {"mixed_precision: \"no\"", "`precision`"},
                             {"checkpoint_dir: out", "`checkpoint.dir`"},
                             {"time_limit: 1h", "`time`"},
                             {"job-name: x", "`name`"}};
  for (const AliasCase& one : cases) {
    const auto job = Read(std::string(one.text) + "\nrun: python train.py\n");
    ASSERT_TRUE(job) << one.text << ": " << FormatError(job.error());
    ASSERT_EQ(job->notices.size(), 1u) << one.text;
    EXPECT_NE(job->notices[0].find(one.notice), std::string::npos) << job->notices[0];
  }
  EXPECT_EQ(Spec("accelerators: {H100: 8}").gpus, (std::vector<GpuRequest>{{"H100", 8}}));
  EXPECT_EQ(Spec("gres: gpu:h100:8").gpus, (std::vector<GpuRequest>{{"h100", 8}}));
  EXPECT_EQ(Spec("mixed_precision: \"no\"").precision, Precision::kFp32);
}

TEST(JobReader, ALeaseIsNeitherTooShortNorShorterThanItsStops) {
  const auto read = [](const std::string& fields) {
    return ReadJobText("run: python a.py\n" + fields, "job.yaml", "/p");
  };
  EXPECT_EQ(read("requeue_after: 10m\n")->spec.requeue_after, Millis{600'000});
  const auto is_short = read("requeue_after: 30s\n");
  ASSERT_FALSE(is_short);
  EXPECT_NE(is_short.error().message.find("5m"), std::string::npos);
  const auto stops = read("requeue_after: 10m\nstop_duration: 5m\n");
  ASSERT_FALSE(stops);
  EXPECT_NE(stops.error().message.find("stop_duration"), std::string::npos);
}

TEST(JobReader, FlattensSkyPilotsResources) {
  const JobSpec spec = Spec("resources: {accelerators: A100:4, cpus: 8+}");
  EXPECT_EQ(spec.gpus, (std::vector<GpuRequest>{{"A100", 4}}));
  EXPECT_EQ(spec.cpus, (Amount{8, true}));
}

struct RefusalCase {
  const char* text;
  const char* says;  // must occur in the whole error
  int line;
};

TEST(JobReader, RefusesWithPlaceAndAdvice) {
  const RefusalCase cases[] = {
      {"nodse: 2", "did you mean `nodes`?", 1},
      {"batch: {globl: 8}", "did you mean `global`?", 1},
      {"nodes: 2\nnodes: 3", "nodes", 2},
      {"nodes: 2\nnum_nodes: 3", "is set twice, first on line 1", 2},
      {"nodes: many", "needs a number or a range", 1},
      {"nodes: [1, 2]", "needs one value, found a list", 1},
      {"nodes: 0", "is not a range of 1 to 10000", 1},
      {"nodes: 4..2", "is not a range", 1},
      {"gpus: H100:80GB:8", "gpu_mem>=40GB", 1},
      {"gpus: -1", "needs NAME:N or N", 1},
      {"gpus: [0, H100:1]", "0 cannot stand in a list", 1},
      {"snapshot: yes", "needs true or false", 1},
      {"local_rank_arg: on", "mean different things to different YAML readers", 1},
      {"time: 90", "it has no unit", 1},
      {"time: 12:30", "it could mean", 1},
      {"precision: bf61", "did you mean bf16?", 1},
      {"strategy: zero4", "is not one of auto, single", 1},
      {"constraints: \"gpu_memory>=6GB\"", "gpu_mem", 1},
      {"nodelist: gpu[1-99999999]", "", 1},
      {"env: {A: 1, A: 2}", "A", 1},
      {"env: [A=1, A=2]", "sets A twice", 1},
      {"env: {2B: x}", "is not the name of a variable", 1},
      {"checkpoint: {signal: USR3}", "did you mean USR1?", 1},
      {"checkpoint: {resume: yes}", "is not one of auto, never", 1},
      {"retry: {recover_on_exit_codes: [0]}", "needs exit codes of 1 to 255", 1},
      {"retry: {on_events: [node_fail]}", "node_failure", 1},
      {"priority: 101", "is outside 0 to 100", 1},
      {"name: My Job", "may hold only a-z", 1},
      {"hang: [1]", "needs a map of its own fields", 1},
      {"memory:", "has no value", 1},
      {"python: python3", "needs the path of an interpreter", 1},
      {"venv: a\nconda: b", "more than one of venv, conda, python and image", 0},
      {"gpus: 1\ntotal_gpus: 2", "gpus and total_gpus are both set", 0},
      {"gpu_ids: [1, 1]", "names 1 twice", 1}};
  for (const RefusalCase& one : cases) {
    const Error error = Refusal(one.text);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << one.text;
    EXPECT_EQ(ExitCodeOf(error.code), 2);
    const std::string text = FormatError(error);
    EXPECT_NE(text.find(one.says), std::string::npos) << one.text << "\n" << text;
    EXPECT_TRUE(text.starts_with("job.yaml")) << text;
    ASSERT_TRUE(error.where) << one.text;
    EXPECT_EQ(error.where->line, one.line) << text;
  }
}

TEST(JobReader, TakesBackTheOffloadOfAWordThatSetBoth) {
  const std::string text = "gpus: 1\nrun: a\nstrategy: zero2-offload\n";
  const auto changed =
      ReadJobText(text, "job.yaml", "/tmp", {{"strategy", "single", "--strategy"}});
  ASSERT_TRUE(changed) << FormatError(changed.error());
  EXPECT_EQ(changed->spec.strategy, Strategy::kSingle);
  EXPECT_EQ(changed->spec.offload, Offload::kAuto);
}

TEST(JobReader, ReadsStrategyAndOffloadInAnyOrder) {
  const std::string strategy = "strategy: zero2-offload\n";
  for (const std::string offload : {"offload: auto\n", "offload: optimizer\n", ""}) {
    EXPECT_EQ(Spec(strategy + offload).offload, Offload::kOptimizer) << offload;
    EXPECT_EQ(Spec(offload + strategy).offload, Offload::kOptimizer) << offload;
  }
  for (const std::string& text : {strategy + "offload: none\n", "offload: none\n" + strategy}) {
    const Error error = Refusal("gpus: 1\n" + text);
    EXPECT_NE(error.message.find("offload: none contradicts strategy: zero2-offload"),
              std::string::npos)
        << error.message;
  }
}

TEST(JobReader, RefusesWordsOfLaterVersionsByName) {
  for (const JobField& field : LaterFields()) {
    const std::string name(field.name);
    const std::size_t dot = name.find('.');
    const std::string text = dot == std::string::npos
                                 ? name + ": x"
                                 : name.substr(0, dot) + ": {" + name.substr(dot + 1) + ": x}";
    const Error error = Refusal("gpus: 1\n" + text);
    EXPECT_EQ(error.code, ErrorCode::kUnimplemented) << text;
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
    ASSERT_TRUE(error.where);
    EXPECT_EQ(error.where->line, 2);
  }
}

TEST(JobReader, KeepsColonsAndBooleansAsTheyWereWritten) {
  EXPECT_EQ(Spec("time: 12:00:00").time_limit, Millis(12 * 3600 * 1000));
  EXPECT_EQ(Spec("nodes: 2:4").nodes, (NodeCount{2, 4, false}));
  EXPECT_EQ(Spec("env: {DEBUG: yes, PORT: 0777, RATE: 1e5}").env,
            (std::vector<EnvEntry>{{"DEBUG", "yes"}, {"PORT", "0777"}, {"RATE", "1e5"}}));
}

TEST(JobReader, TellsAnEmptyValueFromNone) {
  EXPECT_EQ(Spec("env: {A: \"\", B: }").env,
            (std::vector<EnvEntry>{{"A", ""}, {"B", std::nullopt}}));
  EXPECT_EQ(Spec("env: [A=, B]").env, (std::vector<EnvEntry>{{"A", ""}, {"B", std::nullopt}}));
}

TEST(JobReader, ReadsABareSuffixInBinaryAndSaysSo) {
  const auto job = Read("memory: 200G\nrun: x\n");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->spec.memory_bytes, (Amount{200ull << 30, false}));
  ASSERT_EQ(job->notices.size(), 1u);
  EXPECT_NE(job->notices[0].find("binary"), std::string::npos);
}

TEST(JobReader, RefusesWhatIsNoJobFile) {
  EXPECT_FALSE(Read(""));
  EXPECT_FALSE(Read("- a\n- b\n"));
  EXPECT_FALSE(Read("just words"));
  EXPECT_FALSE(Read(std::string("run: x\0y", 8)));
  EXPECT_FALSE(Read("a: &x [1]\nb: *x\nrun: x\n"));
  const auto no_run = Read("name: x\n");
  ASSERT_FALSE(no_run);
  EXPECT_NE(no_run.error().message.find("`run` is missing"), std::string::npos);
}

TEST(JobReader, CountsPathsFromTheFileAndVenvFromWorkdir) {
  const JobSpec spec = Spec("workdir: ../code\nvenv: env\n");
  EXPECT_EQ(spec.workdir, "/home/ana/code");
  EXPECT_EQ(spec.venv, "/home/ana/code/env");
  setenv("HOME", "/home/ana", 1);
  EXPECT_EQ(Spec("venv: ~/envs/train").venv, "/home/ana/envs/train");
}

TEST(JobReader, OverridesReplaceAndCountFromTheCaller) {
  const auto job =
      Read("nodes: 4\nvenv: env\nenv: {A: 1}\nrun: x\n", {{"nodes", "2", "--nodes"},
                                                          {"venv", "other", "--venv"},
                                                          {"env", "A=2", "-e"},
                                                          {"env", "B=3", "-e"},
                                                          {"env", "C", "-e"},
                                                          {"batch.micro", "4", "batch.micro"},
                                                          {"gpu_ids", "1,3", "--gpu-ids"},
                                                          {"gpus", "[H100:1, A100:1]", "--gpus"}});
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.nodes.min, 2);
  EXPECT_EQ(job->spec.venv, "/home/ana/other");
  EXPECT_EQ(job->spec.env, (std::vector<EnvEntry>{{"A", "2"}, {"B", "3"}, {"C", std::nullopt}}));
  EXPECT_EQ(job->spec.batch.micro, 4);
  EXPECT_EQ(job->spec.gpu_ids, (std::vector<int>{1, 3}));
  EXPECT_EQ(job->spec.gpus.size(), 2u);
  EXPECT_TRUE(job->notices.empty());
}

TEST(JobReader, AnInterpreterOnTheCommandLineReplacesTheFiles) {
  const auto job = Read("conda: train\nrun: x\n", {{"venv", "/opt/env", "--venv"}});
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.venv, "/opt/env");
  EXPECT_EQ(job->spec.conda, "");
}

TEST(JobReader, NamesTheFlagInARefusedOverride) {
  const auto job = Read("run: x\n", {{"nodes", "many", "--nodes"}});
  ASSERT_FALSE(job);
  EXPECT_TRUE(FormatError(job.error()).starts_with("--nodes: ")) << FormatError(job.error());
}

TEST(JobReader, AnOverrideThatIsAListHasNoLineEither) {
  const auto job = Read("run: x\n", {{"gpu_ids", "[1, 1]", "--gpu-ids"}});
  ASSERT_FALSE(job);
  EXPECT_TRUE(FormatError(job.error()).starts_with("--gpu-ids: ")) << FormatError(job.error());
}

TEST(JobReader, SplitsOverridesAtTheFirstEqualsSign) {
  const auto change = ParseOverride("env=A=b");
  ASSERT_TRUE(change);
  EXPECT_EQ(change->field, "env");
  EXPECT_EQ(change->value, "A=b");
  EXPECT_FALSE(ParseOverride("nodes"));
  const auto misspelt = ParseOverride("batch.mirco=4");
  ASSERT_FALSE(misspelt);
  EXPECT_NE(misspelt.error().hint.find("batch.micro"), std::string::npos);
}

TEST(JobReader, TakesShortFormsAsOverrides) {
  for (const auto& [text, field] : {std::pair("retry=2", "retry.max"),
                                    {"preflight=none", "preflight.level"},
                                    {"checkpoint=out2", "checkpoint.dir"}}) {
    const auto change = ParseOverride(text);
    ASSERT_TRUE(change) << text << ": " << FormatError(change.error());
    EXPECT_EQ(change->field, field);
  }
  const auto job = Read("run: x\nretry: 5\n", {*ParseOverride("retry=2")});
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.retry.max, 2);
  const auto block = ParseOverride("batch=64");
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().message, "`batch` has fields of its own");
  EXPECT_NE(block.error().hint.find("batch.global"), std::string::npos) << block.error().hint;
}

TEST(JobReader, MakesAJobOfALine) {
  const auto job = ReadJobLine({"torchrun", "--nproc_per_node=2", "Train 8B.py", "--note", "a b"},
                               {{"nodes", "2", "--nodes"}}, "/home/ana");
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.run, "torchrun --nproc_per_node=2 'Train 8B.py' --note 'a b'");
  EXPECT_EQ(job->spec.name, "train-8b");
  EXPECT_EQ(job->spec.workdir, "/home/ana");
  EXPECT_EQ(job->spec.nodes.min, 2);
}

TEST(JobReader, KeepsAVariableInFrontOfALineAVariable) {
  const auto run = [](const std::vector<std::string>& words) {
    const auto job = ReadJobLine(words, {}, "/w");
    EXPECT_TRUE(job) << FormatError(job.error());
    return job ? job->spec.run : "";
  };
  EXPECT_EQ(run({"FOO=a b", "EMPTY=", "BAR=it's $x", "python", "t.py", "lr=1 e"}),
            "FOO='a b' EMPTY= BAR='it'\\''s $x' python t.py lr='1 e'");
  EXPECT_EQ(run({"env", "A=8.0;9.0", "torchrun", "t.py"}), "env A='8.0;9.0' torchrun t.py");
  EXPECT_EQ(run({"a b=c", "--name=a b"}), "'a b=c' '--name=a b'");
}

TEST(JobReader, NamesAJobAfterTheScriptOfItsLine) {
  const auto name = [](const std::vector<std::string>& words) {
    return ReadJobLine(words, {}, "/w")->spec.name;
  };
  EXPECT_EQ(name({"bash", "scripts/Train.sh", "7"}), "train");
  EXPECT_EQ(name({"bash", "train.sh", "--script", "sft.py"}), "sft");
  EXPECT_EQ(name({"FOO=a b", "./prog", "x"}), "prog");
  EXPECT_EQ(name({"FOO=1"}), "");
}

TEST(JobReader, SaysThatAWholeLineInQuotesIsOneWord) {
  // Without its quotes the shell of the user would run what stands behind an operator.
  for (const auto& [word, hint] :
       {std::pair("python t.py", "leave the quotes out: -- python t.py"),
        std::pair("cd sub && torchrun t.py", "-- bash -c 'cd sub && torchrun t.py'"),
        std::pair("python\nt.py", "-- bash -c 'python\nt.py'")}) {
    const auto job = ReadJobLine({word}, {}, "/w");
    ASSERT_FALSE(job) << word;
    EXPECT_EQ(job.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(job.error().message.find("one word"), std::string::npos);
    EXPECT_TRUE(job.error().hint.ends_with(hint)) << job.error().hint;
  }
  EXPECT_TRUE(ReadJobLine({"./train"}, {}, "/w"));
  EXPECT_TRUE(ReadJobLine({"bash", "-c", "python t.py"}, {}, "/w"));
}

TEST(JobReader, AnOperatorAmongTheWordsOfCdIsRefused) {
  const auto job = ReadJobLine({"cd", "sub", "&&", "python", "t.py"}, {}, "/w");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message, "\"&&\" after -- is an argument of cd and joins no commands");
  EXPECT_EQ(job.error().hint, "-- bash -c 'cd sub && python t.py'");
  EXPECT_TRUE(ReadJobLine({"python", "t.py", "--sep", "&&"}, {}, "/w"));
}

TEST(JobReader, AScriptIsNoJobFile) {
  std::string dir = (std::filesystem::temp_directory_path() / "job-XXXXXX").string();
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  std::ofstream(dir + "/train.sh") << "torchrun train.py\n";
  const auto refused = ReadJobFile(dir + "/train.sh", {}, dir);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is a script, not a job file"), std::string::npos);
  EXPECT_EQ(refused.error().hint, "give it as a command: -- bash " + dir + "/train.sh");
  std::filesystem::remove_all(dir);
}

TEST(JobReader, FlagsNameOneInterpreter) {
  const auto job = Read("run: x\n", {{"conda", "a", "--conda"}, {"venv", "v", "--venv"}});
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message, "--conda and --venv name two interpreters");
  EXPECT_TRUE(Read("conda: a\nrun: x\n", {{"venv", "v", "--venv"}})) << "instead of the file's";
}

TEST(JobReader, AnArrayOfTheCommandLineDoesNotReplaceASweep) {
  const auto array = Read("sweep: {lr: [1, 2]}\nrun: x\n", {{"array", "1-3", "-a"}});
  ASSERT_FALSE(array);
  EXPECT_NE(array.error().message.find("stands beside `sweep`"), std::string::npos);
  EXPECT_NE(array.error().hint.find("each of its 2 points"), std::string::npos);
  EXPECT_FALSE(Read("array: 1-3\nrun: x\n", {{"sweep", "{lr: [1]}", "sweep"}}));
  const auto other = Read("sweep: {lr: [1, 2]}\nrun: x\n", {{"sweep", "{lr: [3]}", "sweep"}});
  ASSERT_TRUE(other) << FormatError(other.error());
  EXPECT_EQ(other->spec.array->indices.size(), 1U);
}

TEST(JobReader, TakesTheNumberOfNodesFromTheLine) {
  const auto job =
      ReadJobLine({"torchrun", "--nnodes=2", "--nproc_per_node=2", "train.py"}, {}, "/w");
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.nodes, (NodeCount{2, 2, false}));
}

TEST(JobReader, NamesAJobAfterItsFile) {
  const auto job = ReadJobText("run: x\n", "/a/Train 8B (final).yaml", "/a");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->spec.name, "train-8b-final");
}

TEST(JobFields, HaveOneMeaningPerName) {
  std::map<std::string, std::string> owner;
  for (const JobFieldGroup& group : JobFieldGroups()) {
    for (const JobField& field : group.fields) {
      std::string names = std::string(field.name) + " " + std::string(field.aliases);
      for (std::size_t start = 0; start < names.size();) {
        const std::size_t space = std::min(names.find(' ', start), names.size());
        const std::string name = names.substr(start, space - start);
        start = space + 1;
        if (name.empty()) continue;
        EXPECT_TRUE(owner.emplace(name, field.name).second)
            << name << " belongs to " << owner[name] << " and " << field.name;
        EXPECT_EQ(FindJobField(name), &field);
      }
    }
  }
}

TEST(JobFiles, OfTheExamplesAreAccepted) {
  for (const char* name : {"hello", "ddp", "torchrun"}) {
    const auto job =
        ReadJobFile(std::string(LAUNCH_SOURCE_DIR) + "/configs/jobs/" + name + ".yaml", {}, "/");
    EXPECT_TRUE(job) << name << ": " << (job ? "" : FormatError(job.error()));
    if (!job) continue;
    EXPECT_TRUE(job->notices.empty()) << job->notices[0];
  }
}

TEST(JobFiles, MayComeFromAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text = "gpus: 0\nrun: python train.py\n";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  const auto job = ReadJobFile("/dev/fd/" + std::to_string(ends[0]), {}, "/work");
  close(ends[0]);
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.run, "python train.py");
  EXPECT_EQ(job->spec.name, "job");
  EXPECT_EQ(job->spec.workdir, "/work");
}

TEST(JobFiles, ThatAreMissingOrHugeAreRefused) {
  EXPECT_FALSE(ReadJobFile("/no/such/job.yaml", {}, "/"));
  const std::string path = testing::TempDir() + "/huge.yaml";
  std::ofstream(path) << std::string(10 << 20, 'x');
  EXPECT_FALSE(ReadJobFile(path, {}, "/"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace launch
