#include "cli/predict/throughput_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace launch {
namespace {

const std::string kHeader =
    "id,source,model,params,layers,hidden,seq,n_gpus,gpu,gpu_mem_gb,mfu_pct,hfu_pct,micro_batch,"
    "grad_accum,global_batch,tokens_per_s_per_gpu,precision,sharding,act_ckpt\n";

Result<TimeEstimate> Predict(const std::string& csv) {
  LAUNCH_ASSIGN_OR_RETURN(const CaseTable table,
                          CaseTable::Parse(csv, "t.csv", ThroughputColumnsNeverRead()));
  LAUNCH_ASSIGN_OR_RETURN(const ThroughputCase input, ReadThroughputCase(table, 0));
  return PredictTime(input.card, input.setup, input.time, input.machine);
}

double Rate(const std::string& csv) {
  const auto estimate = Predict(csv);
  EXPECT_TRUE(estimate) << csv << estimate.error().message;
  return estimate ? estimate->tokens_per_second_per_gpu : 0;
}

TEST(ThroughputCase, NamesAndMeasuredColumnsChangeNothing) {
  const double named = Rate(kHeader +
                            "tr007,a paper,mpt-7b,6658859008,32,4096,2048,512,H100-80GB,80,42,42,6,"
                            "1,3072,9670,amp_bf16,FULL_SHARD,none\n");
  EXPECT_EQ(named, Rate(kHeader + "x,,,6658859008,32,4096,2048,512,H100-80GB,80,,,6,1,3072,,"
                                  "amp_bf16,FULL_SHARD,none\n"));
  EXPECT_EQ(named, Rate(kHeader + "y,z,llama,6658859008,32,4096,2048,512,H100-80GB,80,99,99,6,1,"
                                  "3072,1,amp_bf16,FULL_SHARD,none\n"));
}

TEST(ThroughputCase, ColumnsMayComeInAnyOrder) {
  EXPECT_EQ(Rate("id,params,layers,hidden,seq,n_gpus,gpu,micro_batch,grad_accum,precision,"
                 "sharding,act_ckpt\na,1315950592,24,2048,2048,8,A100-80GB,14,4,bf16,FULL_SHARD,"
                 "none\n"),
            Rate("act_ckpt,sharding,gpu,seq,hidden,layers,params,precision,id,grad_accum,"
                 "micro_batch,n_gpus\nnone,FULL_SHARD,A100-80GB,2048,2048,24,1315950592,bf16,a,4,"
                 "14,8\n"));
}

TEST(ThroughputCase, EmptyCellsAndUnknownWordsAreStillPredicted) {
  const char* rows[] = {
      "a,,,6658859008,,,2048,8,A100-80GB,80,,,6,1,,,bf16,FULL_SHARD,none\n",
      "a,,,6658859008,32,4096,2048,8,,,,,,,96,,,,\n",
      "a,,,6658859008,32,4096,2048,,gaudi-3,128,,,1,,,,int7,SHARD_SIDEWAYS,perhaps\n",
      "a,,,6658859008,32,4096,2048,8,A100-80GB,eighty,,,six,1,,,bf16,FULL_SHARD,none\n",
      "a,,,6658859008,32,4096,,8,A100,80,,,6,1,,,bf16,,none\n",
      "a,,,,32,4096,1024,8,A100,80,,,-6,0,,,bf16,,none\n",
  };
  for (const char* row : rows) {
    const double rate = Rate(kHeader + row);
    EXPECT_GT(rate, 10) << row;
    EXPECT_LT(rate, 1e6) << row;
  }
}

TEST(ThroughputCase, StatedSizesThatCannotBeAreNotPredicted) {
  for (const char* row : {"a,,,6658859008,32,4096,2048,-8,H100,80,,,6,1,,,fp16,HYBRID_SHARD,full\n",
                          "a,,,6658859008,32,4096,2048,0,H100,80,,,6,1,,,bf16,FULL_SHARD,none\n",
                          "a,,,6658859008,32,4096,0,8,H100,80,,,6,1,,,bf16,FULL_SHARD,none\n",
                          "a,,,nan,32,4096,2048,8,H100,80,,,6,1,,,bf16,FULL_SHARD,none\n"})
    EXPECT_FALSE(Predict(kHeader + row)) << row;
}

TEST(ThroughputCase, WithoutParametersAndShapeThereIsNoPrediction) {
  EXPECT_FALSE(Predict(kHeader + "a,,,,,,2048,8,A100,80,,,6,1,,,bf16,FULL_SHARD,none\n"));
  EXPECT_FALSE(Predict(kHeader + "a,,,9e14,32,4096,512,8,A100,80,,,6,1,,,bf16,,none\n"));
}

TEST(ThroughputCase, TheGlobalBatchStandsInForAMissingMicroBatch) {
  EXPECT_EQ(
      Rate(kHeader + "a,,,6658859008,32,4096,2048,8,A100,80,,,,2,96,,bf16,FULL_SHARD,none\n"),
      Rate(kHeader + "a,,,6658859008,32,4096,2048,8,A100,80,,,6,2,96,,bf16,FULL_SHARD,none\n"));
}

}  // namespace
}  // namespace launch
