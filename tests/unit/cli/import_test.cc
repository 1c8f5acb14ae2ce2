#include "cli/import/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/job_reader.h"

namespace launch {
namespace {

bool Says(const Imported& imported, std::string_view part) {
  for (const std::string& note : imported.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

// What was made is a job file that this version reads.
JobSpec Read(const Result<Imported>& imported) {
  if (!imported) {
    ADD_FAILURE() << FormatError(imported.error());
    return {};
  }
  const Result<ReadJob> job = ReadJobText(imported->yaml, "made.yaml", "/work");
  if (!job) {
    ADD_FAILURE() << FormatError(job.error()) << "\n" << imported->yaml;
    return {};
  }
  return job->spec;
}

TEST(ImportSlurm, ReadsTheScriptOfATwoNodeTorchrun) {
  const auto imported = ImportText(R"(#!/bin/bash
#SBATCH --job-name=multinode-example
#SBATCH --nodes=4 --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --gpus-per-node=h100:8
#SBATCH -t 12:00:00 -p gpu
#SBATCH -A nlp
#SBATCH --output=%j.out

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
export LOGLEVEL=INFO
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_id $RANDOM \
  --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 train.py 50 10
)",
                                   "job.sbatch");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.name, "multinode-example");
  EXPECT_EQ(spec.nodes.min, 4);
  ASSERT_EQ(spec.gpus.size(), 1U);
  EXPECT_EQ(spec.gpus[0], (GpuRequest{"H100", 8}));
  EXPECT_EQ(spec.time_limit, Millis(12 * 3600 * 1000));
  EXPECT_TRUE(Says(*imported, "partition gpu is dropped"));
  EXPECT_TRUE(Says(*imported, "account nlp is dropped"));
  EXPECT_TRUE(Says(*imported, "output is dropped"));
  EXPECT_NE(spec.run.find("torchrun --nnodes $NNODES"), std::string::npos) << spec.run;
}

TEST(ImportSlurm, DropsSrunAndTheSearchForAMaster) {
  const auto imported = ImportText(R"(#!/bin/bash
#SBATCH -N2
#SBATCH --gres=gpu:a100:4
#SBATCH --ntasks-per-node=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export NCCL_DEBUG=INFO
srun --label --ntasks-per-node 1 torchrun --nproc_per_node=4 train.py --seed $SLURM_ARRAY_TASK_ID
)",
                                   "job.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.run,
            "export NCCL_DEBUG=INFO\n"
            "torchrun --nproc_per_node=4 train.py --seed $LAUNCH_ARRAY_INDEX\n");
  EXPECT_EQ(spec.nodes.min, 2);
  EXPECT_EQ(spec.gpus[0], (GpuRequest{"A100", 4}));
  EXPECT_FALSE(spec.procs_per_node.has_value()) << "torchrun starts the processes";
  EXPECT_TRUE(Says(*imported, "srun is dropped"));
}

TEST(ImportSlurm, ASrunOfPlainPythonIsAProcessForEachTask) {
  const auto imported = ImportText(
      "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n"
      "#SBATCH --cpus-per-task=6 --mem=120G\nsrun python train.py\n",
      "job.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.procs_per_node, 4);
  EXPECT_EQ(spec.gpus[0].count, 4);
  EXPECT_EQ(spec.cpus->value, 24U);
  EXPECT_EQ(spec.memory_bytes->value, 120ULL << 30);
  EXPECT_EQ(spec.run, "python train.py\n");
}

TEST(ImportSlurm, PythonStaysAsManyProcessesAsItIsInSlurm) {
  const auto procs = [](const std::string& text) {
    return Read(ImportText("#!/bin/bash\n" + text, "j.sh")).procs_per_node;
  };
  const std::string two = "#SBATCH --gres=gpu:2\n#SBATCH -N 1\n";
  EXPECT_EQ(procs(two + "python train.py\n"), 1);
  EXPECT_EQ(procs(two + "source v/bin/activate\ncd x && FOO=1 python -u train.py\n"), 1);
  EXPECT_EQ(procs(two + "python train.py --shell bash --hook end.sh\n"), 1) << "its arguments";
  EXPECT_EQ(procs("#SBATCH --gpus=8\n#SBATCH -N2\nsrun python train.py\n"), 1);
  EXPECT_EQ(procs("#SBATCH --gpus=8 -N2 -n 8\nsrun python train.py\n"), 4);
  EXPECT_EQ(procs("#SBATCH --gres=gpu:4 -n 4\nsrun python train.py\n"), 4);
  EXPECT_EQ(procs("#SBATCH --gpus=8 --ntasks-per-gpu=1\nsrun python t.py\n"), std::nullopt);
  EXPECT_EQ(procs(two + "srun -n 2 python train.py\n"), std::nullopt);
  EXPECT_EQ(procs(two + "torchrun --nproc_per_node 2 train.py\n"), std::nullopt);
  EXPECT_EQ(procs(two + "python prepare.py\nbash train.sh\n"), std::nullopt) << "not known";
  EXPECT_EQ(procs("#SBATCH --gres=gpu:1\npython train.py\n"), std::nullopt);
  const auto told = ImportText("#!/bin/bash\n#SBATCH -N 2 --gpus=4\npython train.py\n", "j.sh");
  EXPECT_TRUE(Says(*told, "procs_per_node is 1"));
  EXPECT_TRUE(Says(*told, "first node only"));
  const auto srun = ImportText("#!/bin/bash\n" + two + "srun -n 2 python train.py\n", "j.sh");
  EXPECT_TRUE(Says(*srun, "write procs_per_node"));
}

TEST(ImportSlurm, ReadsTimesAndArraysAsSlurmMeansThem) {
  const auto with = [](const std::string& lines) {
    return Read(ImportText("#!/bin/bash\n" + lines + "python t.py\n", "j.sh"));
  };
  EXPECT_EQ(with("#SBATCH --time=15\n").time_limit, Millis(15 * 60'000));
  EXPECT_EQ(with("#SBATCH -t15:00\n").time_limit, Millis(15 * 60'000));
  EXPECT_EQ(with("#SBATCH -t 1-12\n").time_limit, Millis(36 * 3'600'000));
  EXPECT_EQ(with("#SBATCH --tim 00:20:00\n").time_limit, Millis(20 * 60'000));
  const JobSpec array = with("#SBATCH -a 1-100%8\n#SBATCH -d afterok:17\n#SBATCH -x gpu[07,09]\n");
  ASSERT_TRUE(array.array.has_value());
  EXPECT_EQ(array.array->indices.size(), 100U);
  EXPECT_EQ(array.array->at_once, 8);
  EXPECT_EQ(array.depends_on, (std::vector<Dependency>{{DependencyKind::kAfterOk, JobId{17}}}));
  EXPECT_EQ(array.exclude_nodes, (std::vector<std::string>{"gpu07", "gpu09"}));
  EXPECT_EQ(with("#SBATCH --gpus=16\n#SBATCH -N 2\n").total_gpus, 16);
}

TEST(ImportSlurm, ExclusiveIsNotDroppedWithoutAWord) {
  for (const char* gpus : {"--gpus-per-node=4", "--gres=gpu:4", "--gpus=8"}) {
    const auto imported =
        ImportText(std::string("#!/bin/bash\n#SBATCH --exclusive\n#SBATCH -N 2\n#SBATCH ") + gpus +
                       "\nsrun python t.py\n",
                   "j.sh");
    ASSERT_TRUE(imported) << FormatError(imported.error());
    EXPECT_TRUE(Says(*imported, "exclusive is dropped")) << gpus;
  }
}

TEST(ImportSlurm, RefusesWhatItCannotMean) {
  const auto error = [](const std::string& lines) {
    const auto imported = ImportText("#!/bin/bash\n" + lines + "python t.py\n", "j.sh");
    return imported ? std::string() : FormatError(imported.error());
  };
  EXPECT_NE(error("#SBATCH --n 2\n").find("may mean"), std::string::npos);
  EXPECT_NE(error("#SBATCH hetjob\n").find("heterogeneous"), std::string::npos);
  EXPECT_NE(error("#SBATCH --time=soon\n").find("soon"), std::string::npos);
  EXPECT_NE(error("#SBATCH --nodes\n").find("no value"), std::string::npos);
}

TEST(ImportSlurm, PassesOverOptionsBehindTheFirstCommand) {
  const auto imported =
      ImportText("#!/bin/bash\n#SBATCH -N 1\npython t.py\n#SBATCH -N 8\n", "j.sh");
  EXPECT_EQ(Read(imported).nodes.min, 1);
  EXPECT_TRUE(Says(*imported, "behind the first command is ignored"));
}

TEST(ImportHostfile, NamesNodesAndTheSmallestNumberOfSlots) {
  const auto imported = ImportText("# ours\nana@gpu01 slots=8\ngpu02 slots=4\n", "hf");
  ASSERT_TRUE(imported) << FormatError(imported.error());
  EXPECT_NE(imported->yaml.find("nodes: 2\n"), std::string::npos) << imported->yaml;
  EXPECT_NE(imported->yaml.find("gpus: 4\n"), std::string::npos);
  EXPECT_NE(imported->yaml.find("nodelist: \"gpu[01-02]\"\n"), std::string::npos);
  EXPECT_TRUE(Says(*imported, "gpu02 has 4 slots"));
  EXPECT_TRUE(Says(*imported, "launch up hf brings"));
  EXPECT_TRUE(Says(*imported, "no training command"));
  EXPECT_FALSE(ImportText("gpu01 slots=8\ngpu01 slots=8\n", "hf"));
  EXPECT_FALSE(ImportText("gpu01 slots=0\n", "hf"));
}

TEST(ImportHostfile, ReadsThoseOfMpi) {
  const auto plain = ImportText("10.0.0.1\n10.0.0.2  # the second\n", "hosts");
  ASSERT_TRUE(plain) << FormatError(plain.error());
  EXPECT_NE(plain->yaml.find("nodes: 2\n"), std::string::npos) << plain->yaml;
  EXPECT_EQ(plain->yaml.find("gpus:"), std::string::npos) << plain->yaml;
  EXPECT_TRUE(Says(*plain, "how many slots"));
  for (const char* text :
       {"a:4\nb:4\n", "a slots=4 max_slots=8\nb slots=4\n", "n1\nn1\nn1\nn1\nn2\nn2\nn2\nn2\n"}) {
    const auto counted = ImportText(text, "hosts");
    ASSERT_TRUE(counted) << text << FormatError(counted.error());
    EXPECT_NE(counted->yaml.find("gpus: 4\n"), std::string::npos) << counted->yaml;
    EXPECT_NE(counted->yaml.find("nodes: 2\n"), std::string::npos) << counted->yaml;
  }
  // `launch up` would read :8 as a port, and refuses a host that is named twice.
  for (const char* text : {"n1:8\nn2:8\n", "n1\nn1\nn2\nn2\n"})
    EXPECT_TRUE(Says(*ImportText(text, "hosts"), "launch up 'n[1-2]' brings")) << text;
  EXPECT_FALSE(ImportText("a:0\nb:1\n", "hosts"));
  EXPECT_FALSE(ImportText("train\n", "hosts"));
}

TEST(ImportSlurm, ReadsFeaturesMemoryForEachCoreAndRequeue) {
  const auto imported = ImportText(
      "#SBATCH -C nvlink\n#SBATCH --mem-per-cpu=4G --cpus-per-task=8 --ntasks-per-node=2\n"
      "#SBATCH --requeue\npython t.py\n",
      "j.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.constraints, "nvlink");
  ASSERT_TRUE(spec.memory_bytes);
  EXPECT_EQ(spec.memory_bytes->value, 64ull << 30);
  EXPECT_EQ(spec.retry.max, 2);
  EXPECT_EQ(spec.retry.on_events.size(), 2u);
  const auto strange = ImportText("#SBATCH -C rack4\npython t.py\n", "j.sh");
  EXPECT_EQ(Read(strange).constraints, "");
  EXPECT_TRUE(Says(*strange, "rack4")) << strange->yaml;
  const auto gpus = ImportText("#SBATCH --gres=gpu:4 --mem-per-gpu=1500\npython t.py\n", "j.sh");
  EXPECT_EQ(Read(gpus).memory_bytes->value, 6000ull << 20);
}

TEST(ImportSlurm, CondaActivateBecomesTheFieldOfTheJob) {
  const auto imported = ImportText(
      "#SBATCH -N 1\nsource ~/miniconda3/etc/profile.d/conda.sh\nconda activate myenv\n"
      "python t.py\n",
      "j.sh");
  ASSERT_TRUE(imported) << FormatError(imported.error());
  EXPECT_NE(imported->yaml.find("conda: myenv\n"), std::string::npos) << imported->yaml;
  EXPECT_EQ(imported->yaml.find("activate"), std::string::npos) << imported->yaml;
  const auto open = ImportText("#SBATCH -N 1\nconda activate $ENV\npython t.py\n", "j.sh");
  EXPECT_NE(open->yaml.find("conda activate $ENV"), std::string::npos) << open->yaml;
  EXPECT_TRUE(Says(*open, "write conda: NAME"));
}

TEST(ImportSlurm, ACondaHookIsDroppedOnlyWithWhatNeedsIt) {
  const auto import = [](const std::string& body) {
    return ImportText("#SBATCH -N 1\n" + body, "j.sh");
  };
  const std::string hook = "eval \"$(conda shell.bash hook)\"\n";
  const auto one = import(hook + "ENV=vl\nmamba activate $ENV\npython t.py\nconda deactivate\n");
  EXPECT_EQ(Read(one).conda, "vl");
  EXPECT_EQ(Read(one).run, "ENV=vl\npython t.py\n");
  // Which one is not known, two after each other, in a branch: conda activate keeps its hook.
  for (const std::string& body :
       {hook + "conda activate $ENV\npython t.py\n",
        hook + "conda activate a\npython p.py\nconda activate b\npython t.py\n",
        hook + "if true; then\n  conda activate a\nfi\npython t.py\n"}) {
    const auto kept = import(body);
    EXPECT_EQ(Read(kept).run, body);
    EXPECT_EQ(Read(kept).conda, "");
    EXPECT_TRUE(Says(*kept, "run keeps conda activate and its hook")) << body;
    EXPECT_FALSE(Says(*kept, "does not know")) << body;
  }
}

TEST(ImportAccelerate, MapsMachinesPrecisionAndDeepspeed) {
  const auto imported = ImportText(R"(compute_environment: LOCAL_MACHINE
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: cpu
  offload_param_device: none
  zero_stage: 2
distributed_type: DEEPSPEED
machine_rank: 0
main_process_ip: 10.0.0.1
main_process_port: 29500
mixed_precision: bf16
num_machines: 2
num_processes: 16
use_cpu: false
)",
                                   "acc.yaml");
  ASSERT_TRUE(imported) << FormatError(imported.error());
  for (const char* line : {"nodes: 2\n", "gpus: 8\n", "strategy: zero2\n", "offload: optimizer\n",
                           "precision: bf16\n", "batch: {accumulate: 4}\n"})
    EXPECT_NE(imported->yaml.find(line), std::string::npos) << line << imported->yaml;
  EXPECT_TRUE(Says(*imported, "main_process_ip is dropped"));
}

TEST(ImportSkyPilot, MapsResourcesSetupRunAndEnvs) {
  const auto imported = ImportText(R"(name: ddp
num_nodes: 2
resources:
  accelerators: A100:8
  cloud: aws
  memory: 64+
workdir: .
envs:
  WANDB_MODE: offline
file_mounts:
  /data: s3://bucket
setup: |
  pip install -r requirements.txt
run: |
  MASTER=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK train.py
)",
                                   "sky.yaml");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.name, "ddp");
  EXPECT_EQ(spec.nodes.min, 2);
  EXPECT_EQ(spec.gpus[0], (GpuRequest{"A100", 8}));
  EXPECT_EQ(spec.memory_bytes, (Amount{64'000'000'000ULL, true}));
  EXPECT_EQ(spec.env, (std::vector<EnvEntry>{{"WANDB_MODE", "offline"}}));
  EXPECT_NE(spec.run.find("--node_rank=$NODE_RANK"), std::string::npos) << spec.run;
  EXPECT_NE(spec.setup.find("pip install"), std::string::npos);
  EXPECT_TRUE(Says(*imported, "file_mounts"));
  EXPECT_TRUE(Says(*imported, "resources.cloud"));
}

TEST(ImportSkyPilot, PythonStaysOneProcessOnEachNode) {
  const auto imported = ImportText(
      "name: my task\nresources: {accelerators: A100:4}\nrun: |\n  python train.py\n", "sky.yaml");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.procs_per_node, 1);
  EXPECT_EQ(spec.name, "my-task");
  EXPECT_TRUE(Says(*imported, "once per node"));
}

TEST(Import, LeavesAJobFileOfOursAlone) {
  for (const char* text : {"gpus: 4\npython: bin/python\nrun: python train.py\nretry: 3\n",
                           "resources: {gpus: 4}\ncheckpoint: ckpt\nrun: python train.py\n",
                           "name: a\nrun: python train.py\n"}) {
    const auto imported = ImportText(text, "job.yaml");
    ASSERT_FALSE(imported) << text;
    EXPECT_EQ(imported.error().message, "job.yaml is a job file of launch already");
  }
}

TEST(Import, NamesTheFormatsThatItDoesNotRead) {
  const auto error = [](const char* text, const char* path) {
    const auto imported = ImportText(text, path);
    return imported ? std::string() : imported.error().message;
  };
  EXPECT_NE(error("type: task\nnodes: 2\ncommands: [a]\n", "d.yaml").find("dstack"),
            std::string::npos);
  EXPECT_NE(error("entrypoint: x\nsearcher: {name: grid}\n", "e.yaml").find("Determined"),
            std::string::npos);
  EXPECT_NE(error("apiVersion: v1\nkind: Pod\n", "k.yaml").find("Kubernetes"), std::string::npos);
  EXPECT_NE(error("#!/bin/bash\n#PBS -l nodes=2\n", "p.sh").find("PBS"), std::string::npos);
  EXPECT_NE(error("hello world\n", "x.txt").find("none of the files"), std::string::npos);
}

TEST(ImportSkyPilot, ValuesThatMeanNothingHereAreDroppedAndSaid) {
  const auto imported = ImportText(R"(resources:
  accelerators: ["A100:0.5", "H100:8, B200:1", H100]
envs:
  TOKEN: null
  KEY:
  QUOTED: "null"
  "A B: c": x
  LIST: [1, 2]
run: python train.py
)",
                                   "sky.yaml");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.gpus, (std::vector<GpuRequest>{{"H100", 1}}));
  EXPECT_TRUE(Says(*imported, "A100:0.5"));
  EXPECT_TRUE(Says(*imported, "B200"));
  EXPECT_TRUE(Says(*imported, "no variable can have that name"));
  EXPECT_TRUE(Says(*imported, "holds no text"));
  EXPECT_NE(imported->yaml.find("  TOKEN:\n  KEY:\n  QUOTED: \"null\"\n"), std::string::npos)
      << imported->yaml;
}

TEST(ImportSlurm, NamesAndTimesAreOnesThatAJobFileTakes) {
  const std::string script = R"(#!/bin/bash
#SBATCH --job-name="My run: #3"
#SBATCH --begin=now+1hour
python train.py
)";
  const auto imported = ImportText(script, "a.sh");
  const JobSpec spec = Read(imported);
  EXPECT_TRUE(IsValidName(spec.name)) << spec.name;
  EXPECT_TRUE(Says(*imported, "My run: #3"));
  EXPECT_TRUE(spec.begin.has_value());
  for (const char* begin : {"now+60", "now+2days", "noon", "2030-01-20T12:34:00"}) {
    const auto one = ImportText("#SBATCH -b " + std::string(begin) + "\npython t.py\n", "a.sh");
    EXPECT_TRUE(Read(one).begin.has_value()) << begin;
  }
  const auto odd = ImportText("#SBATCH --begin=someday\npython t.py\n", "a.sh");
  EXPECT_FALSE(Read(odd).begin.has_value());
  EXPECT_TRUE(Says(*odd, "someday"));
}

TEST(ImportSlurm, NothingIsJoinedToADroppedCommand) {
  const auto imported = ImportText(
      "#SBATCH -N 2\n"
      "module load cuda && export MASTER_ADDR=$(scontrol show hostnames | head -1)\n"
      "true && export MASTER_PORT=1 && python t.py\n",
      "a.sh");
  EXPECT_EQ(Read(imported).run, "module load cuda\ntrue && python t.py\n");
}

// examples/distributed/ddp-tutorial-series/slurm/sbatch_run.sh of pytorch/examples has this form.
TEST(ImportSlurm, AnArrayOfNodesStaysAndIsFilledWithOurs) {
  const auto imported = ImportText(R"(#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)

echo Node IP: $head_node_ip
srun torchrun \
--nnodes 4 \
--rdzv_endpoint $head_node_ip:29500 \
/shared/train.py 50 10
)",
                                   "job.sbatch");
  const JobSpec spec = Read(imported);
  EXPECT_NE(spec.run.find("nodes=( $( echo \"$LAUNCH_NODE_IPS\" ) )\n"), std::string::npos)
      << spec.run;
  EXPECT_NE(spec.run.find("head_node_ip=$MASTER_ADDR\n"), std::string::npos) << spec.run;
  EXPECT_NE(spec.run.find("\ntorchrun \\\n--nnodes 4"), std::string::npos) << spec.run;
  EXPECT_EQ(spec.run.find("srun"), std::string::npos) << spec.run;
  EXPECT_FALSE(spec.procs_per_node.has_value());
}

TEST(ImportSlurm, FlagsOfSrunMayBeInVariables) {
  const auto run = [](const std::string& body) {
    return Read(ImportText("#SBATCH -N 2\n" + body, "j.sh")).run;
  };
  EXPECT_EQ(run("SRUN_ARGS=\"--wait 60 --kill-on-bad-exit=1\"\n"
                "srun $SRUN_ARGS --jobid $SLURM_JOB_ID torchrun t.py\n"),
            "SRUN_ARGS=\"--wait 60 --kill-on-bad-exit=1\"\ntorchrun t.py\n");
  EXPECT_EQ(run("CMD=\"python t.py\"\nsrun -l $CMD\n"), "CMD=\"python t.py\"\n$CMD\n");
  // An empty array gives no word.
  EXPECT_EQ(run("EXTRA=()\nsrun \"${EXTRA[@]}\" -u python t.py\n"), "EXTRA=()\npython t.py\n");
  EXPECT_EQ(run("FLAGS=(--mpi pmix -n 4)\nsrun \"${FLAGS[@]}\" python t.py\n"),
            "FLAGS=(--mpi pmix -n 4)\npython t.py\n");
  const auto open = ImportText("#SBATCH -N 2\n\nsrun $UNKNOWN python t.py\n", "j.sh");
  EXPECT_TRUE(Says(*open, "line 3: srun is dropped; $UNKNOWN is not known here"));
  // One variable with both: nothing is cut through it.
  const auto both = ImportText("#SBATCH -N 2\nS=\"-l python t.py\"\nsrun $S\n", "j.sh");
  EXPECT_EQ(Read(both).run, "S=\"-l python t.py\"\nsrun $S\n");
  EXPECT_TRUE(Says(*both, "line 3: srun is not supported"));
}

TEST(ImportSlurm, AnSrunWithoutACommandIsLeftOutAndSaid) {
  for (const char* line : {"srun --", "srun", "srun -n", "srun --nodes", "srun -l --", "srun -",
                           "srun --mpi=pmix -N 2", "time srun -w", "if srun -n; then echo; fi"}) {
    const auto imported =
        ImportText("#SBATCH -N 2\n" + std::string(line) + "\npython t.py\n", "j.sh");
    ASSERT_TRUE(imported) << line;
    if (std::string_view(line) == "srun -") continue;  // a command named "-"
    EXPECT_TRUE(Says(*imported, "line 2: srun has no command here")) << line;
    EXPECT_NE(Read(imported).run.find("python t.py"), std::string::npos) << line;
  }
}

TEST(ImportSlurm, BlocksAroundTheLineStay) {
  const auto imported = ImportText(R"(#SBATCH --array=0-3
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
if [ -n "$DEBUG" ]; then
  export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
else
  export MASTER_PORT=29500
fi
for seed in 1 2; do
  srun --label torchrun --node_rank $SLURM_PROCID --nnodes $SLURM_NTASKS t.py --seed $seed \
    --part $SLURM_ARRAY_TASK_ID || exit 1
done
)",
                                   "j.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.run,
            "if [ -n \"$DEBUG\" ]; then\n  :\nelse\n  :\nfi\n"
            "for seed in 1 2; do\n"
            "  torchrun --node_rank $NODE_RANK --nnodes $NNODES t.py --seed $seed \\\n"
            "    --part $LAUNCH_ARRAY_INDEX || exit 1\ndone\n");
  ASSERT_TRUE(spec.array);
  EXPECT_EQ(spec.array->indices.size(), 4u);
}

TEST(ImportSlurm, VariablesOfTheScriptAreNoSearchForAMaster) {
  const auto imported = ImportText(
      "#SBATCH -N 2\nnodes=4\nhead_node=gpu01\nhosts=$(scontrol show hostnames)\n"
      "echo $hosts $head_node\npython t.py --nodes $nodes\n",
      "j.sh");
  EXPECT_EQ(Read(imported).run,
            "nodes=4\nhead_node=gpu01\nhosts=$(echo \"$LAUNCH_NODE_IPS\")\n"
            "echo $hosts $head_node\npython t.py --nodes $nodes\n");
  EXPECT_EQ(Read(imported).nodes.min, 2);
}

// An sbatch file that counts the nodes for a script that it calls.
TEST(ImportSlurm, WhatIsExportedStaysForThoseThatReadIt) {
  const auto run = [](const std::string& body) {
    return Read(ImportText("#SBATCH -N 2\n#SBATCH --gpus-per-node=8\n" + body, "j.sh")).run;
  };
  EXPECT_EQ(run("export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
                "export MASTER_PORT=12802\n"
                "export COUNT_NODE=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | wc -l)\n"
                "export HOSTNAMES=`scontrol show hostnames \"$SLURM_JOB_NODELIST\"`\n"
                "srun bash train.sh\n"),
            "export COUNT_NODE=$(echo \"$LAUNCH_NODE_IPS\" | wc -l)\n"
            "export HOSTNAMES=`echo \"$LAUNCH_NODE_IPS\"`\n"
            "bash train.sh\n");
  const std::string hosts = "hosts=$(scontrol show hostnames)\n";
  const std::string ours = "hosts=$(echo \"$LAUNCH_NODE_IPS\")\n";
  EXPECT_EQ(run(hosts + "bash train.sh\n"), "bash train.sh\n");
  EXPECT_EQ(run(hosts + "export hosts\nbash t.sh\n"), ours + "export hosts\nbash t.sh\n");
  EXPECT_EQ(run("set -ae\n" + hosts + "bash t.sh\n"), "set -ae\n" + ours + "bash t.sh\n");
}

TEST(ImportSlurm, WhatTheFileSaysItselfIsWrittenOut) {
  const auto import = [](const std::string& body) {
    return ImportText(
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
        "#SBATCH --cpus-per-task=12\n" +
            body,
        "j.sh");
  };
  const auto direct = import(
      "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n"
      "export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))\n"
      "srun python t.py --devices $SLURM_GPUS_ON_NODE\n");
  EXPECT_EQ(Read(direct).run,
            "export SLURM_CPUS_PER_TASK=12\nexport SLURM_GPUS_ON_NODE=4\n"
            "export SLURM_NTASKS_PER_NODE=4\n"
            "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n"
            "export WORLD_SIZE=$(($NNODES * $SLURM_NTASKS_PER_NODE))\n"
            "python t.py --devices $SLURM_GPUS_ON_NODE\n");
  EXPECT_FALSE(Says(*direct, "no twin"));
  EXPECT_TRUE(Says(*direct, "SLURM_CPUS_PER_TASK is 12, as the file says"));
  const auto once = import("python get.py\nsrun python t.py\n");
  EXPECT_TRUE(Says(*once, "line 5: Python without srun runs once")) << once->notes.back();
  EXPECT_FALSE(Says(*direct, "Python without srun"));
  // Not the program that launch starts itself.
  EXPECT_EQ(Read(import("srun -n 1 torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py "
                        "--gpus $SLURM_GPUS_ON_NODE\n"))
                .run,
            "export SLURM_GPUS_ON_NODE=4\ntorchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py "
            "--gpus $SLURM_GPUS_ON_NODE\n");
  // A launcher has the number of its processes from the job.
  EXPECT_EQ(Read(import("torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py\n")).run,
            "torchrun --nproc_per_node=$NPROC_PER_NODE t.py\n");
  EXPECT_EQ(Read(import("# $SLURM_CPUS_PER_TASK\npython t.py\n")).run, "python t.py\n");
  EXPECT_TRUE(Says(*ImportText("#SBATCH -N 2\necho $SLURM_CPUS_PER_TASK\n", "j.sh"), "no twin"));
}

TEST(ImportSlurm, SlurmsVariablesInCalledScriptsAreNamedWithTheirLine) {
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) / ("import-" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir / "tools");
  std::ofstream(dir / "train.sh") << "#!/bin/bash\nSLURM_OWN=1\n\nNNODES=${SLURM_NNODES:-1}\n"
                                     "echo $SLURM_OWN $SLURM_TOPOLOGY_ADDR\n"
                                     "bash tools/inner.sh\n";
  std::ofstream(dir / "tools" / "inner.sh")
      << "python -m torch.distributed.run --nnodes $SLURM_NNODES \\\n"
         "  --node_rank $SLURM_PROCID tools/t.py\nbash train.sh\n";
  std::ofstream(dir / "plain.py") << "import os\nrank = int(os.environ[\"SLURM_PROCID\"])\n"
                                     "if 'SLURM_LOCALID' in os.environ:\n"
                                     "    local = os.environ['SLURM_LOCALID']\n";
  const auto import = [&](const std::string& body) {
    return ImportText("#SBATCH -N 2\n#SBATCH --gpus-per-node=8\n" + body, dir / "job.sbatch");
  };
  const auto shell = import("srun bash train.sh\n");
  EXPECT_TRUE(Says(*shell,
                   "train.sh:4: SLURM_NNODES has no value under launch: read NNODES there, "
                   "or put `export SLURM_NNODES=$NNODES` in front of run"));
  EXPECT_TRUE(Says(*shell, "train.sh:5: SLURM_TOPOLOGY_ADDR has no value under launch"));
  EXPECT_FALSE(Says(*shell, "SLURM_OWN"));
  EXPECT_TRUE(Says(*shell, "tools/inner.sh:2: SLURM_PROCID")) << shell->notes.back();
  EXPECT_TRUE(Says(*shell, "read NODE_RANK there"));
  EXPECT_FALSE(Says(*shell, "inner.sh:1: SLURM_NNODES")) << "told once";
  const auto given = import("export SLURM_TOPOLOGY_ADDR=a\nsrun bash train.sh\n");
  EXPECT_FALSE(Says(*given, "SLURM_TOPOLOGY_ADDR has no value"));
  const auto python = import("srun --ntasks-per-node=8 python -u plain.py\n");
  EXPECT_TRUE(Says(*python, "plain.py:2: SLURM_PROCID")) << python->notes.back();
  EXPECT_TRUE(Says(*python, "read RANK there")) << "srun starts the ranks themselves";
  EXPECT_FALSE(Says(*python, "SLURM_LOCALID"));
  std::ofstream(dir / "plain.py") << "import os\ngpus = int(os.environ['SLURM_GPUS_ON_NODE'])\n";
  EXPECT_TRUE(Says(*import("srun --ntasks-per-node=8 python plain.py\n"),
                   "put `export SLURM_GPUS_ON_NODE=8` in front of run"));
  EXPECT_TRUE(Says(*import("torchrun --nproc_per_node=8 plain.py\n"), "read NPROC_PER_NODE there"));
  // One task for each node whose script calls a launcher is no process of the training.
  const auto behind =
      import("#SBATCH --ntasks-per-node=1\nsrun bash train.sh --rank $SLURM_PROCID\n");
  EXPECT_FALSE(Read(behind).procs_per_node);
  EXPECT_EQ(Read(behind).run, "bash train.sh --rank $NODE_RANK\n");
  EXPECT_FALSE(Says(*import("srun -n 2 --ntasks-per-node=1 bash train.sh\n"), "procs_per_node"));
  std::filesystem::remove_all(dir);
}

TEST(ImportSlurm, WhatIsNotUnderstoodIsToldWithItsLine) {
  const auto imported = ImportText(
      "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --core-spec=2\n#SBATCH --gres-flags=enforce-binding\n"
      "module load cuda\nscontrol update job $SLURM_JOB_ID\n# srun is a comment\n"
      "echo $SLURM_TOPOLOGY_ADDR\npython t.py\n#SBATCH -N 8\n",
      "j.sh");
  EXPECT_TRUE(Says(*imported, "line 3: #SBATCH --core-spec is not supported"));
  EXPECT_TRUE(Says(*imported, "line 4: #SBATCH --gres-flags is not supported"));
  EXPECT_TRUE(Says(*imported, "line 8: run still uses SLURM_TOPOLOGY_ADDR"));
  EXPECT_TRUE(Says(*imported, "line 10: #SBATCH behind the first command"));
  EXPECT_FALSE(Says(*imported, "line 7"));
}

// `--mem 10GB` of a thesis' array of jobs, `512gb` of LLM-Shearing, `64000MB` of a cluster's page.
TEST(ImportSlurm, MemoryMayHaveAByteBehindItsUnit) {
  const auto memory = [](const std::string& option) {
    return Read(ImportText("#SBATCH -N 1\n#SBATCH " + option + "\npython t.py\n", "j.sh"))
        .memory_bytes.value_or(Amount{})
        .value;
  };
  EXPECT_EQ(memory("--mem 10GB"), 10ull << 30);
  EXPECT_EQ(memory("--mem=512gb"), 512ull << 30);
  EXPECT_EQ(memory("--mem=64000MB"), 64000ull << 20);
  EXPECT_EQ(memory("--mem=4g"), 4ull << 30);
  EXPECT_EQ(memory("--mem=2000"), 2000ull << 20);
  EXPECT_EQ(memory("--mem-per-cpu=2GB --cpus-per-task=4"), 8ull << 30);
  const auto none = ImportText("#SBATCH -N 1\n#SBATCH --mem=plenty\npython t.py\n", "j.sh");
  EXPECT_FALSE(Read(none).memory_bytes);
  EXPECT_TRUE(Says(*none, "mem plenty is dropped"));
}

TEST(ImportSlurm, WhatIsPerGpuIsMultiplied) {
  const auto imported = ImportText(
      "#SBATCH --gpus=4 --nodes=1\n#SBATCH --mem-per-gpu=40G\n#SBATCH --cpus-per-gpu=32\n"
      "python t.py\n",
      "j.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.cpus.value_or(Amount{}).value, 128u);
  EXPECT_EQ(spec.memory_bytes->value, 160ull << 30);
  EXPECT_TRUE(Says(*imported, "cpus-per-gpu 32 became"));
  const auto open = ImportText("#SBATCH --gpus=4 -N 2 --cpus-per-gpu=8\npython t.py\n", "j.sh");
  EXPECT_FALSE(Read(open).cpus);
  EXPECT_TRUE(Says(*open, "cpus-per-gpu 8 is dropped: write cpus"));
}

// The template of ml-engineering's launchers and of BigScience's trainings.
TEST(ImportSlurm, ALauncherInAVariableCountsItsProcessesItself) {
  const std::string head = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\n";
  const auto torchrun = ImportText(head + R"(GPUS_PER_NODE=8
NNODES=$SLURM_NNODES
LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES \
    --node_rank \$SLURM_PROCID --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT"
export CMD="$LAUNCHER torch-distributed-gpu-test.py"
SRUN_ARGS="--wait=60 --kill-on-bad-exit=1"
srun $SRUN_ARGS bash -c "$CMD" 2>&1 | tee -a log.txt
)",
                                   "j.slurm");
  EXPECT_FALSE(Read(torchrun).procs_per_node) << torchrun->yaml;
  EXPECT_NE(torchrun->yaml.find("--node_rank \\$NODE_RANK"), std::string::npos) << torchrun->yaml;
  const auto accelerate = ImportText(head + R"(
LAUNCHER="python -u -m accelerate.commands.launch --num_processes 16 --num_machines 2 \
    --machine_rank \$SLURM_PROCID"
export CMD="$LAUNCHER t.py"
srun bash -c "$CMD"
)",
                                     "j.slurm");
  EXPECT_FALSE(Read(accelerate).procs_per_node) << accelerate->yaml;
  EXPECT_NE(accelerate->yaml.find("--machine_rank \\$NODE_RANK"), std::string::npos);
  const auto composer = ImportText(head + "srun composer llmshearing/train.py a.yaml\n", "j.slurm");
  EXPECT_FALSE(Read(composer).procs_per_node) << composer->yaml;
  // A task for each node of a program that is no launcher.
  const auto plain =
      ImportText(head + "CMD=\"python -u t.py\"\nsrun bash -c \"$CMD\"\n", "j.slurm");
  EXPECT_EQ(Read(plain).procs_per_node, 1) << plain->yaml;
}

TEST(ImportSlurm, ContainersOfPyxisBecomeImageAndMounts) {
  const auto imported = ImportText(R"(#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
srun --container-image=nvcr.io#nvidia/pytorch:24.01-py3 \
     --container-mounts=/data:/data,/checkpoints:/ck:ro \
     --container-workdir=/workspace --no-container-mount-home \
     torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 train_fsdp.py
)",
                                   "j.sh");
  const JobSpec spec = Read(imported);
  EXPECT_EQ(spec.image, "nvcr.io/nvidia/pytorch:24.01-py3");
  ASSERT_EQ(spec.mounts.size(), 2u);
  EXPECT_EQ(spec.mounts[0].source, "/data");
  EXPECT_FALSE(spec.mounts[0].read_only);
  EXPECT_EQ(spec.mounts[1].target, "/ck");
  EXPECT_TRUE(spec.mounts[1].read_only);
  EXPECT_EQ(spec.run, "torchrun --nnodes=$NNODES --nproc_per_node=8 train_fsdp.py\n");
  EXPECT_TRUE(Says(*imported, "container-workdir /workspace is dropped"));
  EXPECT_TRUE(Says(*imported, "no-container-mount-home is dropped"));

  const auto squashed = ImportText(
      "#SBATCH -N 1\n#SBATCH --container-image=/lustre/x/scene_occ.sqsh\nIMAGES=/img\n"
      "srun --container-image=$IMAGES/b.sqsh --container-mounts $HERE:/w python a.py\n",
      "j.sh");
  EXPECT_EQ(Read(squashed).image, "/lustre/x/scene_occ.sqsh");
  EXPECT_TRUE(Says(*squashed, "container-image /img/b.sqsh is dropped: a job has one image"));
  EXPECT_TRUE(Says(*squashed, "container-mounts $HERE:/w is dropped: its value is not known"));
  EXPECT_FALSE(Says(*squashed, "#SBATCH --container-image is not supported"));
}

// A script of two lines for ViT on one node, which asks Slurm for nothing.
TEST(ImportSlurm, ALauncherWithoutAnOptionForGpusIsSaid) {
  const std::string run = "torchrun --nnodes=1 --nproc_per_node=8 torchrun.py --epochs 30\n";
  const auto none = ImportText("#SBATCH --job-name=vit8\n" + run, "j.sh");
  EXPECT_TRUE(Says(*none, "no option asks for GPUs: gpus is 0, and run calls a launcher"));
  EXPECT_FALSE(Says(*ImportText("#SBATCH --gres=gpu:8\n" + run, "j.sh"), "no option asks"));
  EXPECT_FALSE(Says(*ImportText("#SBATCH -N 1\npython t.py\n", "j.sh"), "no option asks"));
}

}  // namespace
}  // namespace launch
