#include "agent/runner/record_file.h"

#include <cstring>

#include "agent/shim/shim_record.h"

namespace launch::agent {

void RecordWriter::Put(std::uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void RecordWriter::Put(std::string_view text) {
  Put(static_cast<std::uint64_t>(text.size()));
  bytes_.append(text);
}

std::uint64_t RecordReader::TakeNumber() {
  std::uint64_t value = 0;
  if (rest_.size() < sizeof value) {
    ok_ = false;
    return 0;
  }
  std::memcpy(&value, rest_.data(), sizeof value);
  rest_.remove_prefix(sizeof value);
  return value;
}

std::string RecordReader::TakeText() {
  const std::uint64_t size = TakeNumber();
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

std::string SealBody(std::string_view body) {
  shim::Header header;
  header.magic = shim::kMagic;
  header.version = shim::kVersion;
  header.length = static_cast<std::uint32_t>(body.size());
  header.crc = shim::Crc32c(body.data(), body.size());
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.append(body);
  return bytes;
}

Result<std::string> OpenBody(std::string_view file_bytes) {
  shim::Header header;
  if (file_bytes.size() < sizeof header) return Fail(ErrorCode::kDataLoss, "cut short");
  std::memcpy(&header, file_bytes.data(), sizeof header);
  const std::string_view body = file_bytes.substr(sizeof header);
  if (header.magic != shim::kMagic) return Fail(ErrorCode::kDataLoss, "not a record of ours");
  if (header.version != shim::kVersion) {
    return Fail(ErrorCode::kDataLoss,
                "version " + std::to_string(header.version) + " is not known");
  }
  if (header.length != body.size()) return Fail(ErrorCode::kDataLoss, "cut short");
  if (header.crc != shim::Crc32c(body.data(), body.size())) {
    return Fail(ErrorCode::kDataLoss, "checksum does not match");
  }
  return std::string(body);
}

}  // namespace launch::agent
