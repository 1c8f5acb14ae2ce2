// Fills every field of a message with valid values that differ, so that a conversion which forgets
// a field, or swaps two, is caught by comparing what comes back.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>

namespace launch::testing {

class MessageFiller {
 public:
  explicit MessageFiller(std::uint64_t seed) : random_(seed) {}

  // Repeated fields and maps get two entries; of a oneof, one case is drawn.
  void Fill(google::protobuf::Message& message);

 private:
  using Field = google::protobuf::FieldDescriptor;
  void FillField(google::protobuf::Message& message, const Field& field, bool add);
  std::string Text(const Field& field);
  std::int64_t Number(const Field& field);
  std::int64_t Draw(std::int64_t low, std::int64_t high);
  std::string Hex(std::size_t digits);

  std::mt19937_64 random_;
  std::int64_t counter_ = 0;  // distinct values where a message wants them distinct
};

}  // namespace launch::testing
