#include "proto/observed.h"

#include "common/utf8_head.h"

namespace launch::observed {

std::string Word(std::string_view text) {
  // Every byte of a cut sequence is repaired to three: repair first, cut whole characters after.
  std::string word = edge::Utf8(text);
  word.resize(Utf8Head(word, edge::kMaxWord).size());
  for (char& c : word)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return word;
}

std::string Path(std::string_view path) {
  return std::string(path.substr(0, path.find('\0')).substr(0, edge::kMaxPath - 1));
}

std::string Gpu(std::string_view uuid) {
  std::string text(uuid.substr(0, 96));
  for (char& c : text) {
    const bool clean = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.:/").find(c) != std::string_view::npos;
    if (!clean) c = '_';
  }
  return text.empty() ? "_" : text;
}

bool IsVariable(std::string_view name, std::string_view value) {
  return !name.empty() && name.size() <= edge::kMaxWord && Word(name) == name &&
         name.find('=') == std::string_view::npos && value.size() <= edge::kMaxValue &&
         value.find('\0') == std::string_view::npos;
}

}  // namespace launch::observed
