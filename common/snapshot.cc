#include "common/snapshot.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <unordered_map>

#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::string_view kManifestHead = "launch-snapshot 1";
constexpr std::string_view kRootHead = "launch-snapshot-root 1";
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxNameBytes = 255;
// Of a file of kMostCopyBytes with a path of the longest, all of it escaped.
constexpr std::size_t kMaxLineBytes = kMostCopyBytes / kChunkBytes * 65 + 3 * kMaxPathBytes + 32;
constexpr const char* kLess =
    "name what the job does not need in .launchignore (as in .gitignore), or put workdir on a file "
    "system that all nodes share";

// One word of a line: every byte that is not plain becomes %XX, so that names with spaces and line
// breaks survive.
std::string Word(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 127 && c != '%') {
      word += c;
    } else {
      word += '%';
      word += kDigits[byte >> 4];
      word += kDigits[byte & 15];
    }
  }
  return word;
}

Result<std::string> Unword(std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      const auto raw = static_cast<unsigned char>(word[i]);
      if (raw <= ' ' || raw >= 127) {  // what Word never leaves as it is; a NUL would end the path
        return Fail(ErrorCode::kDataLoss, "the manifest has a raw byte: " + Quoted(word));
      }
      text += word[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = word.substr(i + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2 || byte == 0) {
      return Fail(ErrorCode::kDataLoss, "the manifest has a bad escape: " + Quoted(word));
    }
    text += static_cast<char>(byte);
    i += 2;
  }
  return text;
}

bool IsSafePath(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.back() == '/') {
    return false;
  }
  for (const std::string_view part : Split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

Unexpected Bad(std::string_view line) {
  return Fail(ErrorCode::kDataLoss, "the manifest has a line that means nothing: " + Quoted(line));
}

Result<SnapshotEntry> ParseEntry(std::string_view line) {
  if (line.size() > kMaxLineBytes) return Bad(line.substr(0, kMaxNameBytes));
  const std::vector<std::string_view> words = Split(line, ' ');
  SnapshotEntry entry;
  if (words.size() < 2 || words[0].size() != 1) return Bad(line);
  LAUNCH_ASSIGN_OR_RETURN(entry.path, Unword(words[1]));
  if (!IsSafePath(entry.path)) {
    return Fail(ErrorCode::kDataLoss,
                "the manifest has a path outside of its directory: " + Quoted(entry.path));
  }
  const char kind = words[0][0];
  if (kind == 'd' && words.size() == 2) {
    entry.kind = SnapshotKind::kDirectory;
    return entry;
  }
  if (kind == 'l' && words.size() == 3) {
    entry.kind = SnapshotKind::kLink;
    LAUNCH_ASSIGN_OR_RETURN(entry.target, Unword(words[2]));
    return entry;
  }
  if ((kind != 'f' && kind != 'x') || words.size() < 3) return Bad(line);
  entry.executable = kind == 'x';
  const auto read = std::from_chars(words[2].data(), words[2].data() + words[2].size(), entry.size);
  if (read.ec != std::errc() || read.ptr != words[2].data() + words[2].size()) return Bad(line);
  for (std::size_t i = 3; i < words.size(); ++i) {
    if (!IsDigest(words[i])) return Bad(line);
    entry.chunks.emplace_back(words[i]);
  }
  const std::uint64_t needed = entry.size / kChunkBytes + (entry.size % kChunkBytes == 0 ? 0 : 1);
  if (entry.chunks.size() != needed) return Bad(line);
  return entry;
}

Unexpected Beyond(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "the copy of workdir has " + what, kLess);
}

Unexpected TooManyEntries() {
  return Beyond("more than " + std::to_string(kMostCopyEntries) + " files, links and directories");
}

}  // namespace

bool IsDigest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string_view> CutIntoChunks(std::string_view bytes) {
  std::vector<std::string_view> chunks;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kChunkBytes, bytes.size()))) {
    chunks.push_back(bytes.substr(0, kChunkBytes));
  }
  return chunks;
}

std::string SerializeManifest(const std::vector<SnapshotEntry>& entries) {
  std::string text(kManifestHead);
  text += '\n';
  for (const SnapshotEntry& entry : entries) {
    switch (entry.kind) {
      case SnapshotKind::kDirectory:
        text += "d " + Word(entry.path);
        break;
      case SnapshotKind::kLink:
        text += "l " + Word(entry.path) + " " + Word(entry.target);
        break;
      case SnapshotKind::kFile:
        text += entry.executable ? "x " : "f ";
        text += Word(entry.path) + " " + std::to_string(entry.size);
        for (const std::string& chunk : entry.chunks) text += " " + chunk;
        break;
    }
    text += '\n';
  }
  return text;
}

Result<void> CopyBounds::Add(const SnapshotEntry& entry) {
  ++entries_;
  bytes_ += std::min(entry.size, kMostCopyBytes + 1);
  if (entries_ > kMostCopyEntries) return TooManyEntries();
  if (bytes_ > kMostCopyBytes) return Beyond("more than " + FormatBytes(kMostCopyBytes));
  if (std::max(entry.path.size(), entry.target.size()) > kMaxPathBytes)
    return Beyond("a path of more than " + std::to_string(kMaxPathBytes) +
                  " bytes: " + Quoted(entry.path.substr(0, kMaxNameBytes)) + "...");
  const std::vector<std::string_view> names = Split(entry.path, '/');
  if (names.size() > kMostCopyDepth)
    return Beyond("a path more than " + std::to_string(kMostCopyDepth) +
                  " directories deep: " + Quoted(entry.path.substr(0, kMaxNameBytes)) + "...");
  const auto too_long = [](std::string_view name) { return name.size() > kMaxNameBytes; };
  if (std::ranges::any_of(names, too_long))
    return Beyond("a name of more than " + std::to_string(kMaxNameBytes) +
                  " bytes: " + Quoted(entry.path.substr(0, kMaxNameBytes)) + "...");
  return {};
}

Result<void> VisitManifest(std::string_view text,
                           const std::function<Result<void>(const SnapshotEntry&)>& visit) {
  // Before there is a list of them.
  if (static_cast<std::size_t>(std::ranges::count(text, '\n')) > kMostCopyEntries + 1)
    return TooManyEntries();
  const std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.empty() || lines[0] != kManifestHead) {
    return Fail(ErrorCode::kDataLoss, "this is no manifest of a snapshot this version can read");
  }
  // The names are those of the text, but for the few that are written with escapes.
  std::unordered_map<std::string_view, SnapshotKind> seen;
  std::deque<std::string> unescaped;
  CopyBounds bounds;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    LAUNCH_ASSIGN_OR_RETURN(const SnapshotEntry entry, ParseEntry(lines[i]));
    LAUNCH_RETURN_IF_ERROR(bounds.Add(entry));
    const std::size_t slash = entry.path.rfind('/');
    const auto parent = slash == std::string::npos
                            ? seen.end()
                            : seen.find(std::string_view(entry.path).substr(0, slash));
    const bool inside = slash == std::string::npos ||
                        (parent != seen.end() && parent->second == SnapshotKind::kDirectory);
    std::string_view name = lines[i].substr(2, entry.path.size());  // behind the kind
    if (name != entry.path) name = unescaped.emplace_back(entry.path);
    if (!inside || !seen.emplace(name, entry.kind).second) {
      return Fail(ErrorCode::kDataLoss,
                  "the manifest has a path that lies in no directory of it, or twice: " +
                      Quoted(entry.path));
    }
    LAUNCH_RETURN_IF_ERROR(visit(entry));
  }
  return {};
}

Result<std::vector<SnapshotEntry>> ParseManifest(std::string_view text) {
  std::vector<SnapshotEntry> entries;
  LAUNCH_RETURN_IF_ERROR(VisitManifest(text, [&](const SnapshotEntry& entry) -> Result<void> {
    entries.push_back(entry);
    return {};
  }));
  return entries;
}

std::string SerializeRoot(const std::vector<std::string>& manifest_chunks) {
  std::string text(kRootHead);
  text += '\n';
  for (const std::string& chunk : manifest_chunks) text += chunk + "\n";
  return text;
}

Result<std::vector<std::string>> ParseRoot(std::string_view text) {
  const std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.empty() || lines[0] != kRootHead) {
    return Fail(ErrorCode::kDataLoss, "this is no root of a snapshot this version can read");
  }
  if (lines.size() - 1 > kMostManifestBytes / kChunkBytes) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the list of files in the copy of workdir has more than " + FormatBytes(kMostManifestBytes),
        kLess);
  }
  std::vector<std::string> chunks;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (!IsDigest(lines[i])) return Bad(lines[i]);
    chunks.emplace_back(lines[i]);
  }
  return chunks;
}

}  // namespace launch
