// Small checked files of an attempt directory: a fixed header, then fields one after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace launch::agent {

// Fields of a record body in the order they are put; host byte order (never leaves the node).
class RecordWriter {
 public:
  void Put(std::uint64_t value);
  void Put(std::string_view text);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Takes fields in the same order. A field that is not there makes ok() false and reads as empty.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t TakeNumber();
  std::string TakeText();
  bool ok() const { return ok_; }
  bool AtEnd() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// The bytes of a file: header (magic, version, length, CRC32C) and body.
std::string SealBody(std::string_view body);

// The body, or DATA_LOSS that says what is wrong with the bytes ("cut short", "checksum").
Result<std::string> OpenBody(std::string_view file_bytes);

}  // namespace launch::agent
