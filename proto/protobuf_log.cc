#include "proto/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <atomic>

namespace launch {
namespace {

std::atomic<void (*)(const std::string&)> taker{nullptr};

void Handle(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  if (auto* take = taker.load()) take(message);
}

}  // namespace

void SetProtobufLog(void (*take)(const std::string& line)) {
  taker = take;
  google::protobuf::SetLogHandler(Handle);
}

}  // namespace launch
