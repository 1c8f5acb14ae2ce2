#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cli/predict/case_table.h"
#include "cli/predict/memory_case.h"
#include "common/units.h"

namespace launch {
namespace {

Result<CaseTable> Parse(const std::string& csv) {
  return CaseTable::Parse(csv, "cases.csv", MemoryAnswerColumns());
}

std::string ErrorOf(const std::string& csv) {
  const auto table = Parse(csv);
  return table ? "accepted" : FormatError(table.error());
}

TEST(CaseTable, ReadsColumnsByNameInAnyOrder) {
  const auto table = Parse(
      "\xEF\xBB\xBF"
      "seq,id,note\r\n 2048 ,a,\"one, \"\"two\"\"\nthree\"\r\n\n,b,\n");
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 2U);
  EXPECT_EQ(table->Text(0, "id"), "a");
  EXPECT_EQ(table->Count(0, "seq"), 2048);
  EXPECT_EQ(table->Text(0, "note"), "one, \"two\"\nthree");
  EXPECT_EQ(table->Count(1, "seq"), std::nullopt);
  EXPECT_EQ(table->Text(1, "no such column"), "");
}

TEST(CaseTable, DropsTheColumnsThatHoldTheAnswer) {
  const auto table = Parse("id,measured_peak_gb,fits,source,seq\na,40.5,yes,somewhere,512\n");
  ASSERT_TRUE(table);
  for (const std::string& column : MemoryAnswerColumns()) EXPECT_EQ(table->Text(0, column), "");
  EXPECT_EQ(table->Count(0, "seq"), 512);
}

TEST(CaseTable, NumbersAreWholeCellsAndFinite) {
  const auto table = Parse("id,x\na,1e400\nb,12abc\nc,nan\nd,13000000000.0\ne,1.5\nf,-3\n");
  ASSERT_TRUE(table);
  for (const std::size_t row : {0, 1, 2}) EXPECT_EQ(table->Number(row, "x"), std::nullopt);
  EXPECT_EQ(table->Count(3, "x"), 13'000'000'000);
  EXPECT_EQ(table->Count(4, "x"), std::nullopt);
  EXPECT_EQ(table->Number(4, "x"), 1.5);
  EXPECT_EQ(table->Count(5, "x"), -3);
}

TEST(CaseTable, KeepsAShortRowFromHidingTheOthers) {
  const auto table = CaseTable::Parse("id,seq\na,1\nb\nc,3\n", "cases.csv", {});
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 3u);
  EXPECT_TRUE(table->CheckRow(0));
  const auto bad = table->CheckRow(1);
  ASSERT_FALSE(bad);
  EXPECT_EQ(FormatError(bad.error()), "cases.csv:3: 1 cells where the header has 2");
  EXPECT_EQ(table->Count(2, "seq"), 3);
}

TEST(CaseTable, RefusesTablesItCannotTrust) {
  EXPECT_EQ(ErrorOf(""), "cases.csv:1: no header line");
  EXPECT_EQ(ErrorOf("seq\n1\n"), "cases.csv:1: no column \"id\"");
  EXPECT_EQ(ErrorOf("id,seq,seq\n"), "cases.csv:1: column seq stands twice in the header");
  EXPECT_EQ(ErrorOf("id,seq\na,1\na,2\n"), "cases.csv:3: id a stands twice");
  EXPECT_EQ(ErrorOf("id,seq\n,1\n"), "cases.csv:2: a row without id");
  EXPECT_EQ(ErrorOf("id,seq\na,\"1\nb,2\n"), "cases.csv:2: a quoted cell does not end");
  EXPECT_TRUE(ErrorOf("id,seq\na,\"1\"2\n").starts_with("cases.csv:2: text after a closing quote"));
}

const std::string kHeader =
    "id,model,params,layers,hidden,heads,kv_heads,seq,vocab,micro_batch,precision,optimizer,"
    "strategy,zero_stage,offload,act_ckpt,flash_attn,n_gpus,gpu,gpu_mem_gb,framework,metric,unit,"
    "loss,lora_rank,tied,variable_length,measured_peak_gb,fits,source\n";

// Rows of every kind the table knows, each with the cells after `id,model`.
const char* const kRows[] = {
    "6738415616,32,4096,32,32,2048,32000,2,bf16_lora,adamw,single+lora,,none,full,yes,1,"
    "A100-80GB,80,hf,reserved,GiB,full,16,no,yes",
    "6738415616,32,4096,32,32,1024,32000,1,nf4+bf16,adamw,single+qlora,,none,none,yes,1,"
    "RTX4090-24GB,24,litgpt,allocated,GB,full,8,no,",
    "1315000000,24,2048,16,16,2048,50257,4,fp16_master,adam,zero,1,none,full,no,8,V100-32GB,32,"
    "megatron,unspecified,GiB,full,,yes,",
    "8030261248,32,4096,32,8,8192,128256,1,bf16_fsdp_fp32params,adamw,fsdp_full,3,none,"
    "selective_op,yes,16,H100-80GB,79.1,torchtitan,reserved,GiB,full,,no,",
    "336000000,24,1024,16,16,512,30522,4,fp16_amp,adamw,ddp,0,none,none,no,2,V100-SXM2-16GB,"
    "15.78,hf,process,GiB,classification,,yes,",
    "13000000000,,,,,,,,fp16_master,cpu_adam,zero,2,optimizer,,,1,V100-32GB,32,hf,unspecified,"
    "GiB,full,,yes,",
    "72287920128,80,8192,64,64,4096,152064,1,int4_gptq+fp16,adamw,model_split+qlora,,none,full,"
    "yes,2,A100-80GB,80,hf,reserved,GiB,full,64,no,",
};

MemoryAnswer Answer(const std::string& csv) {
  const auto table = Parse(csv);
  EXPECT_TRUE(table) << (table ? "" : FormatError(table.error()));
  if (!table) return {};
  const auto row = ReadMemoryCase(*table, 0);
  EXPECT_TRUE(row) << (row ? "" : row.error().message);
  if (!row) return {};
  const auto answer = AnswerMemoryCase(*row, {});
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().message);
  return answer.value_or(MemoryAnswer{});
}

TEST(PredictMemory, AnswersEveryKindOfRow) {
  for (const char* cells : kRows) {
    const MemoryAnswer answer = Answer(kHeader + "r1,some," + cells + ",,,\n");
    EXPECT_TRUE(std::isfinite(answer.peak.bytes)) << cells;
    EXPECT_GT(answer.peak.bytes, kGiBytes) << cells;
    EXPECT_LE(answer.peak.low, answer.peak.bytes) << cells;
    EXPECT_GE(answer.peak.high, answer.peak.bytes) << cells;
    EXPECT_TRUE(answer.fits) << cells;
  }
}

TEST(PredictMemory, NamesAndAnswersDoNotChangeThePrediction) {
  for (const char* cells : kRows) {
    const MemoryAnswer plain = Answer(kHeader + "r1,qwen-7b," + cells + ",,,\n");
    const MemoryAnswer renamed =
        Answer(kHeader + "zzz,gpt2-xl," + cells + ",12.5,no,\"owner/other README.md | unit=GB\"\n");
    EXPECT_EQ(plain.peak.bytes, renamed.peak.bytes) << cells;
    EXPECT_EQ(plain.peak.low, renamed.peak.low) << cells;
    EXPECT_EQ(plain.peak.high, renamed.peak.high) << cells;
    EXPECT_EQ(plain.fits, renamed.fits) << cells;
    EXPECT_EQ(plain.estimate, renamed.estimate) << cells;
  }
}

TEST(PredictMemory, UnknownWordsAndMissingColumnsAreNoErrors) {
  const MemoryAnswer answer =
      Answer("params,id,precision,framework,metric,gpu\n7e9,r1,posit8,zork,imagined,Voodoo 2\n");
  EXPECT_GT(answer.peak.bytes, 7e9);
  EXPECT_FALSE(answer.fits);
}

TEST(PredictMemory, OtherSpellingsMeanTheSame) {
  const std::string model = "7e9,32,4096,32000,2048,2,8,";
  const auto peak = [&](const std::string& words) {
    return Answer(
               "params,layers,hidden,vocab,seq,micro_batch,n_gpus,strategy,zero_stage,offload,"
               "flash_attn,framework,precision,id,act_ckpt\n" +
               model + words + ",r1,full\n")
        .peak.bytes;
  };
  const double zero3 = peak("zero,3,none,yes,hf,bf16_master");
  for (const char* same : {"zero3,,none,yes,hf,bf16_master", "ZeRO-3,,no,yes,trl,bf16_master",
                           "deepspeed_stage_3,,false,yes,Transformers,bf16_master"})
    EXPECT_EQ(peak(same), zero3) << same;
  const double offload = peak("zero,2,optimizer,yes,hf,bf16_master");
  EXPECT_LT(offload, peak("zero,2,none,yes,hf,bf16_master"));
  EXPECT_EQ(peak("zero2,,cpu,yes,hf,bf16_master"), offload);
  EXPECT_EQ(peak("hsdp,,none,yes,hf,bf16_master"), peak("fsdp_hybrid,,none,yes,hf,bf16_master"));
  EXPECT_EQ(peak("ddp,,none,eager,hf,bf16-mixed"), peak("ddp,,none,no,hf,bf16_amp"));
}

TEST(PredictMemory, ACellThatContradictsOthersIsLeftOut) {
  const std::string columns = "id,params,layers,hidden,heads,kv_heads,vocab,seq\n";
  const double plain = Answer(columns + "r1,7e9,32,4096,,,32000,2048\n").peak.bytes;
  EXPECT_EQ(Answer(columns + "r1,7e9,32,4096,8,32,32000,2048\n").peak.bytes, plain);
  const double counted = Answer(columns + "r1,,32,4096,,,32000,2048\n").peak.bytes;
  EXPECT_EQ(Answer(columns + "r1,7e6,32,4096,,,32000,2048\n").peak.bytes, counted);
}

TEST(PredictMemory, RefusesNumbersThatCannotBe) {
  const auto error = [](const std::string& csv) {
    const auto table = Parse(csv);
    const auto row = ReadMemoryCase(*table, 0);
    if (!row) return row.error().message;
    const auto answer = AnswerMemoryCase(*row, {});
    return answer ? "accepted" : answer.error().message;
  };
  EXPECT_EQ(error("id,params\nr1,-7\n"), "params is \"-7\", not a whole number from 0 on");
  EXPECT_EQ(error("id,params\nr1,lots\n"), "params is \"lots\", not a whole number from 0 on");
  EXPECT_EQ(error("id,params\nr1,1e18\n"), "params is \"1e18\", not a whole number from 0 on");
  EXPECT_EQ(error("id,params\nr1,\n"), "model: neither parameters nor layers and hidden known");
  EXPECT_NE(error("id,params,seq,micro_batch\nr1,7e9,1e9,1e9\n"), "accepted");
  EXPECT_NE(error("id,layers,hidden\nr1,1e9,1e9\n"), "accepted");
}

}  // namespace
}  // namespace launch
