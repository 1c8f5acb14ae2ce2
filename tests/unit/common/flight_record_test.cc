// The files of PyTorch's flight recorder, as it writes them and as nobody should.
#include "common/flight_record.h"

#include <gtest/gtest.h>

#include "common/base64.h"
#include "tests/unit/common/flight_records.h"

namespace launch {
namespace {

std::string Bytes(const char* base64) { return *FromBase64(base64, kPlainAlphabet); }

// A pickle of parts: texts with their lengths, and everything else as it is written.
std::string Text(const std::string& text) {
  return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text;
}
const std::string kFirst(1, '\0');  // number of a place to remember

FlightGroup Of(const char* base64) {
  const auto record = ReadFlightRecord(Bytes(base64));
  EXPECT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->groups.size(), 1u);
  return record->groups.at(0);
}

TEST(FlightRecord, TellsInWhichCollectiveARankWaitsAndWhereItCalledIt) {
  const FlightGroup waits = Of(kWaits);
  EXPECT_EQ(waits, (FlightGroup{.id = "0",
                                .name = "default_pg",
                                .completed = 3,
                                .entered = 4,
                                .waits_in = 4,
                                .call = "all_reduce",
                                .at = "/srv/w/train.py:14 (step)"}));
  EXPECT_EQ(FlightLine(7, waits),
            "flight recorder: rank 7 in group 0 (default_pg) completed 3, entered 4, waits in 4: "
            "all_reduce at /srv/w/train.py:14 (step)");
  EXPECT_EQ(Of(kInBroadcast).call, "broadcast");
  EXPECT_EQ(Of(kInBroadcast).at, "/srv/w/train.py:18 (<module>)");
  EXPECT_EQ(Of(kInAllReduce).waits_in, 4);
}

TEST(FlightRecord, ARankThatCameToNothingMoreWaitsInNothing) {
  const FlightGroup late = Of(kLate);
  EXPECT_EQ(late.entered, 3);
  EXPECT_EQ(late.completed, 3);
  EXPECT_EQ(late.waits_in, 0);
  EXPECT_EQ(FlightLine(1, late),
            "flight recorder: rank 1 in group 0 (default_pg) completed 3, entered 3");
}

// Without pg_status the entries' own state counts, and a typed list is a call of torch's.
TEST(FlightRecord, ReadsTheFormOfOlderReleases) {
  const std::string entry = "}(" + Text("seq_id") + "K\5" + Text("pg_id") + "K\2" + Text("state") +
                            Text("started") + Text("profiling_name") + Text("nccl:broadcast") +
                            Text("input_sizes") + "ctorch.jit._pickle\nbuild_intlist\n](K\4e\x85Ru";
  const std::string bytes =
      "\x80\2}(" + Text("version") + Text("1.2") + Text("entries") + "](" + entry + "eu.";
  const auto record = ReadFlightRecord(bytes);
  ASSERT_TRUE(record) << record.error().message;
  ASSERT_EQ(record->groups.size(), 1u);
  EXPECT_EQ(record->groups[0].id, "2");
  EXPECT_EQ(record->groups[0].waits_in, 5);
  EXPECT_EQ(record->groups[0].call, "broadcast");
}

TEST(FlightRecord, RefusesWhatIsCutOffOrOfAnotherKind) {
  const std::string whole = Bytes(kWaits);
  for (std::size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(ReadFlightRecord(std::string_view(whole).substr(0, size))) << size;
  EXPECT_FALSE(ReadFlightRecord("cos\nsystem\n(" + Text("id") + "tR."));
  EXPECT_FALSE(ReadFlightRecord("K\1."));
  EXPECT_FALSE(ReadFlightRecord("}."));
  EXPECT_FALSE(ReadFlightRecord(std::string(kLargestFlightRecord + 1, 'N')));
}

TEST(FlightRecord, ACircleAndAMillionNamesOfOneDictionaryEndInTime) {
  const std::string head = "}(" + Text("version") + "N" + Text("entries");
  EXPECT_TRUE(ReadFlightRecord(head + "]q" + kFirst + "h" + kFirst + "au."));
  std::string wide = head + "](}q" + kFirst + "(";
  for (int i = 0; i < 100'000; ++i) wide += "NN";
  wide += "u";
  for (int i = 0; i < 1'000'000; ++i) wide += "h" + kFirst;
  EXPECT_TRUE(ReadFlightRecord(wide + "eu."));
}

TEST(FlightRecord, NamesAreOnOneLineAndNoCommands) {
  std::string bytes = Bytes(kWaits);
  const std::size_t at = bytes.find("gloo:all_reduce");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at + 5, 4, "\x1b[2\n");
  EXPECT_EQ(ReadFlightRecord(bytes)->groups.at(0).call, "?[2?reduce");
}

}  // namespace
}  // namespace launch
