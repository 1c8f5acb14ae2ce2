#include "proto/edge.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include <cmath>

namespace launch::edge {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the valid UTF-8 sequence at `at`, or 0.
std::size_t SequenceAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
    const unsigned high = first == 0xED ? 0x9F : 0xBF;  // no surrogates
    return byte(1) >= low && byte(1) <= high && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;  // up to U+10FFFF
    return byte(1) >= low && byte(1) <= high && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string AtMost(std::size_t max) { return "is longer than " + std::to_string(max) + " bytes"; }

}  // namespace

std::string Utf8(std::string_view text) {
  std::string out;
  out.reserve(std::min(text.size(), kMaxText));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceAt(text, at);
    const std::string_view piece = length > 0 ? text.substr(at, length) : kReplacement;
    if (out.size() + piece.size() > kMaxText) break;
    out += piece;
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string SerializeDeterministic(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

Error Under(std::string_view field, const Error& inner) {
  Error error = inner;
  const bool leaf = !inner.where || inner.where->field.empty();
  std::string path(field);
  if (!leaf) path += "." + inner.where->field;
  error.message = std::string(field) + (leaf ? ": " : ".") + inner.message;
  error.where = Where{.file = {}, .line = 0, .column = 0, .field = std::move(path)};
  return error;
}

void Edge::Require(bool holds, std::string_view field, std::string_view problem) {
  if (holds || error_) return;
  error_ = Error{ErrorCode::kInvalidArgument,
                 std::string(field) + ": " + std::string(problem),
                 {},
                 Where{.file = {}, .line = 0, .column = 0, .field = std::string(field)}};
}

void Edge::Nest(std::string_view field, const Error& inner) {
  if (!error_) error_ = Under(field, inner);
}

std::string Edge::TooMany(int max) { return "has more than " + std::to_string(max) + " entries"; }

std::string Edge::Index(std::string_view field, std::size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

std::string Edge::Entry(std::string_view field, const std::string& key) {
  return std::string(field) + "." + key.substr(0, kMaxWord);
}

std::string Edge::Text(std::string_view field, const std::string& value, std::size_t max) {
  if (value.size() > max) Require(false, field, AtMost(max));
  return ok() ? value : std::string();
}

std::string Edge::Word(std::string_view field, const std::string& value) {
  Require(!value.empty(), field, "is empty");
  return MaybeWord(field, value);
}

std::string Edge::MaybeWord(std::string_view field, const std::string& value) {
  Require(!HasControl(value), field, "has a control character");
  return Text(field, value, kMaxWord);
}

std::string Edge::Name(std::string_view field, const std::string& value) {
  Require(!value.empty(), field, "is empty");
  Require(IsValidName(value), field,
          "is not a name: 1 to 63 of a-z A-Z 0-9 . _ - and no leading - or .");
  return ok() ? value : std::string();
}

std::string Edge::MaybeName(std::string_view field, const std::string& value) {
  return value.empty() ? std::string() : Name(field, value);
}

std::string Edge::Choice(std::string_view field, const std::string& value,
                         std::initializer_list<std::string_view> choices) {
  const bool known = std::find(choices.begin(), choices.end(), value) != choices.end();
  if (!known) {
    std::string all;
    for (std::string_view choice : choices) {
      if (!all.empty()) all += ", ";
      all += choice;
    }
    Require(false, field, "is none of " + all);
  }
  return ok() ? value : std::string();
}

GpuUuid Edge::Gpu(std::string_view field, const std::string& value) {
  // The alphabet keeps a UUID one word of CUDA_VISIBLE_DEVICES and one part of a stored key.
  const bool clean = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':' || c == '/';
  });
  Require(!value.empty() && value.size() <= 96 && clean, field,
          "is not a GPU's UUID: 1 to 96 of a-z A-Z 0-9 - _ . : /");
  return GpuUuid{ok() ? value : std::string()};
}

JobId Edge::Job(std::string_view field, std::uint64_t value) {
  Require(value >= 1, field, "must be at least 1");
  return JobId{value};
}

Attempt Edge::AttemptOf(std::string_view field, std::uint32_t value) {
  Require(value >= 1, field, "must be at least 1");
  return Attempt{value};
}

std::string Edge::Hex(std::string_view field, const std::string& value, std::size_t digits) {
  const bool hex = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!hex || value.size() != digits) {
    Require(false, field, "is not " + std::to_string(digits) + " lower-case hex digits");
  }
  return ok() ? value : std::string();
}

std::string Edge::BootId(std::string_view field, const std::string& value) {
  const bool clean = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
  Require(clean && value.size() <= 64, field, "is not a boot id");
  return ok() ? value : std::string();
}

std::string Edge::Bytes(std::string_view field, const std::string& value, std::size_t max) {
  Require(value.find('\0') == std::string::npos, field, "has a NUL byte");
  return Text(field, value, max);
}

std::string Edge::Path(std::string_view field, const std::string& value) {
  return Bytes(field, value, kMaxPath - 1);
}

std::string Edge::AbsolutePath(std::string_view field, const std::string& value) {
  Require(!value.empty() && value.front() == '/', field, "is not an absolute path");
  return Path(field, value);
}

std::string Edge::EnvName(std::string_view field, const std::string& value) {
  Require(!value.empty(), field, "has a variable without a name");
  Require(value.find('=') == std::string::npos && !HasControl(value), field,
          "has a variable with '=' or a control character in its name");
  return Text(field, value, kMaxWord);
}

std::string Edge::FileName(std::string_view field, const std::string& value) {
  Require(!value.empty() && value != "." && value != ".." && value.find('/') == std::string::npos &&
              !HasControl(value) && value.size() <= 255,
          field, "is not the name of a file: 1 to 255 bytes, no '/'");
  return ok() ? value : std::string();
}

int Edge::Int(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    Require(
        false, field,
        std::to_string(value) + " is not in " + std::to_string(low) + ".." + std::to_string(high));
  }
  return ok() ? static_cast<int>(value) : 0;
}

std::int64_t Edge::Int64(std::string_view field, std::int64_t value, std::int64_t low) {
  if (value < low) {
    Require(false, field, std::to_string(value) + " is less than " + std::to_string(low));
  }
  return value;
}

double Edge::Number(std::string_view field, double value) {
  Require(std::isfinite(value), field, "is not a finite number");
  return ok() ? value : 0;
}

Millis Edge::Duration(std::string_view field, std::int64_t ms) {
  Require(ms >= 0 && ms <= kMaxMs, field, "is not a duration in milliseconds");
  return Millis{ok() ? ms : 0};
}

WallTime Edge::Wall(std::string_view field, std::int64_t ms) {
  Require(ms >= 0 && ms <= kMaxMs, field, "is not a time in milliseconds");
  return WallMs(ok() ? ms : 0);
}

BootTime Edge::Boot(std::string_view field, std::int64_t ms) {
  Require(ms >= 0 && ms <= kMaxMs, field, "is not a time in milliseconds");
  return BootMs(ok() ? ms : 0);
}

}  // namespace launch::edge
