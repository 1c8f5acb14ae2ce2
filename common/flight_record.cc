#include "common/flight_record.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

namespace launch {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;  // 2,000 entries have some 200,000
constexpr std::size_t kMostFlightFrames = 64;
constexpr std::size_t kMostGroups = 256;
constexpr std::size_t kMostEntries = 65'536;  // the recorder keeps 2,000 as it comes
constexpr std::size_t kMostKeys = 2 * 64;     // an entry has about 20
constexpr std::size_t kLongestName = 120;

struct Node {
  enum class Kind { kNothing, kNumber, kText, kList, kDict, kOther };
  Kind kind = Kind::kNothing;
  std::int64_t number = 0;
  std::string text;
  std::vector<const Node*> items;  // of a list or tuple; of a dictionary key, value, key, value
};

// A machine of the pickle protocol (Lib/pickletools.py) that makes plain values only. Nodes refer
// to each other and are all freed together, so that circles harm nobody.
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

  // Null: it is none, or holds what a flight recorder does not write.
  const Node* Read() {
    while (ok_ && at_ < bytes_.size() && nodes_.size() < kMostNodes) {
      const auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == '.') return stack_.empty() || !ok_ ? nullptr : stack_.back();
      Step(op);
    }
    return nullptr;
  }

 private:
  void Step(unsigned char op) {
    switch (op) {
      case 0x80:  // PROTO
        (void)Take(1);
        return;
      case 0x95:  // FRAME
        (void)Take(8);
        return;
      case '(':
        marks_.push_back(stack_.size());
        return;
      case '0':  // POP
        (void)Pop();
        return;
      case 'N':
        Push(Node::Kind::kNothing);
        return;
      case 0x88:
      case 0x89:
        Push(Node::Kind::kNumber)->number = op == 0x88 ? 1 : 0;
        return;
      case 'K':
        Push(Node::Kind::kNumber)->number = Number(1, false);
        return;
      case 'M':
        Push(Node::Kind::kNumber)->number = Number(2, false);
        return;
      case 'J':
        Push(Node::Kind::kNumber)->number = Number(4, true);
        return;
      case 0x8a: {  // LONG1
        const auto size = static_cast<std::size_t>(Number(1, false));
        if (size > 8) return Fault();
        Push(Node::Kind::kNumber)->number = Number(size, true);
        return;
      }
      case 'G':  // BINFLOAT: durations, which nobody asks for
        (void)Take(8);
        Push(Node::Kind::kOther);
        return;
      case 'X':
        return Text(static_cast<std::size_t>(Number(4, false)));
      case 0x8c:
        return Text(static_cast<std::size_t>(Number(1, false)));
      case ']':
      case ')':
        Push(Node::Kind::kList);
        return;
      case '}':
        Push(Node::Kind::kDict);
        return;
      case 'a':
        return AddTo(Node::Kind::kList, 1);
      case 's':
        return AddTo(Node::Kind::kDict, 2);
      case 'e':
        return AddTo(Node::Kind::kList, SinceMark());
      case 'u':
        return AddTo(Node::Kind::kDict, SinceMark());
      case 't':
        return Tuple(SinceMark());
      case 0x85:
      case 0x86:
      case 0x87:
        return Tuple(op - 0x84u);
      case 'q':
        return Keep(Number(1, false));
      case 'r':
        return Keep(Number(4, false));
      case 0x94:  // MEMOIZE
        return Keep(static_cast<std::int64_t>(memo_.size()));
      case 'h':
        return Recall(Number(1, false));
      case 'j':
        return Recall(Number(4, false));
      case 'c':  // GLOBAL: "torch.jit._pickle\nbuild_intlist\n"
        Line();
        Line();
        Push(Node::Kind::kOther);
        return;
      case 'R':
        return Reduce();
      default:
        return Fault();
    }
  }

  void Fault() { ok_ = false; }

  std::string_view Take(std::size_t count) {
    if (bytes_.size() - at_ < count) {
      Fault();
      return {};
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  // Little-endian.
  std::int64_t Number(std::size_t size, bool is_signed) {
    const std::string_view bytes = Take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    const std::size_t bits = 8 * bytes.size();
    if (is_signed && bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0)
      value |= ~std::uint64_t{0} << bits;
    return std::bit_cast<std::int64_t>(value);
  }
  Node* Push(Node::Kind kind) {
    nodes_.push_back({.kind = kind, .number = 0, .text = {}, .items = {}});
    stack_.push_back(&nodes_.back());
    return &nodes_.back();
  }
  const Node* Pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) {
      Fault();
      return nullptr;
    }
    const Node* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  void Text(std::size_t size) {
    const std::string_view text = Take(size);
    if (ok_) Push(Node::Kind::kText)->text = text;
  }
  void Line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return Fault();
    at_ = end + 1;
  }
  std::size_t SinceMark() {
    if (marks_.empty() || marks_.back() > stack_.size()) {
      Fault();
      return 0;
    }
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }
  void AddTo(Node::Kind kind, std::size_t count) {
    if (!ok_ || stack_.size() < count + 1) return Fault();
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    Node* into = *(first - 1);
    if (into->kind != kind || (kind == Node::Kind::kDict && count % 2 != 0)) return Fault();
    into->items.insert(into->items.end(), first, stack_.end());
    stack_.erase(first, stack_.end());
  }
  void Tuple(std::size_t count) {
    if (!ok_ || stack_.size() < count) return Fault();
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<const Node*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    Push(Node::Kind::kList)->items = std::move(items);
  }
  void Keep(std::int64_t slot) {
    if (!ok_ || stack_.empty()) return Fault();
    memo_[slot] = stack_.back();
  }
  void Recall(std::int64_t slot) {
    const auto found = memo_.find(slot);
    if (!ok_ || found == memo_.end()) return Fault();
    stack_.push_back(found->second);
  }
  // torch makes typed lists by a call with the list: the list is what it stands for.
  void Reduce() {
    const Node* arguments = Pop();
    const Node* called = Pop();
    if (!ok_ || called->kind != Node::Kind::kOther || arguments->kind != Node::Kind::kList)
      return Fault();
    Node* made = Push(Node::Kind::kOther);
    if (arguments->items.size() != 1) return;
    made->kind = arguments->items[0]->kind;
    made->number = arguments->items[0]->number;
    made->text = arguments->items[0]->text.substr(0, kLongestName);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
  std::deque<Node> nodes_;
  std::vector<Node*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::int64_t, Node*> memo_;
};

const Node* Get(const Node& dict, std::string_view key) {
  if (dict.kind != Node::Kind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < std::min(dict.items.size(), kMostKeys); i += 2) {
    if (dict.items[i]->kind == Node::Kind::kText && dict.items[i]->text == key)
      return dict.items[i + 1];
  }
  return nullptr;
}

// On one line, and nothing that a terminal obeys.
std::string Plain(std::string_view text, std::size_t longest) {
  std::string plain(text.substr(0, longest));
  for (char& c : plain)
    if (c < ' ' || c > '~') c = '?';
  return plain;
}

std::string TextOf(const Node* node) {
  return node != nullptr && node->kind == Node::Kind::kText ? Plain(node->text, kLongestName)
                                                            : std::string();
}

std::optional<std::int64_t> NumberOf(const Node* node) {
  if (node == nullptr || node->kind != Node::Kind::kNumber) return std::nullopt;
  return node->number;
}

// Innermost first: the first one that is not of a library.
std::string PlaceOf(const Node* frames) {
  if (frames == nullptr || frames->kind != Node::Kind::kList) return {};
  for (std::size_t i = 0; i < frames->items.size() && i < kMostFlightFrames; ++i) {
    const Node* file = Get(*frames->items[i], "filename");
    if (file == nullptr || file->kind != Node::Kind::kText) continue;
    const std::string_view path = file->text;
    const auto has = [&](std::string_view part) { return path.find(part) != path.npos; };
    if (has("/torch/") || has("/site-packages/") || has("/dist-packages/")) continue;
    const std::string function = TextOf(Get(*frames->items[i], "name"));
    return Plain(path, 2 * kLongestName) + ":" +
           std::to_string(NumberOf(Get(*frames->items[i], "line")).value_or(0)) +
           (function.empty() ? "" : " (" + function + ")");
  }
  return {};
}

// "nccl:all_reduce" -> "all_reduce".
std::string CallOf(const Node* node) {
  const std::string text = TextOf(node);
  const std::size_t colon = text.find(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

// How far the watchdog of a group has come, by its number.
std::map<std::string, std::int64_t> CompletedOf(const Node& record) {
  std::map<std::string, std::int64_t> completed;
  const Node* status = Get(record, "pg_status");
  if (status == nullptr || status->kind != Node::Kind::kDict) return completed;
  for (std::size_t i = 0; i + 1 < status->items.size() && completed.size() < kMostGroups; i += 2) {
    const auto last = NumberOf(Get(*status->items[i + 1], "last_completed_collective"));
    if (last) completed[TextOf(status->items[i])] = *last;
  }
  return completed;
}

void TakeEntry(const Node& entry, const std::map<std::string, std::int64_t>& completed,
               std::map<std::string, FlightGroup>& groups) {
  if (NumberOf(Get(entry, "is_p2p")).value_or(0) != 0) return;
  auto number = NumberOf(Get(entry, "collective_seq_id"));
  if (!number) number = NumberOf(Get(entry, "seq_id"));  // torch 2.3 and older
  if (!number) return;
  const std::string id = std::to_string(NumberOf(Get(entry, "pg_id")).value_or(0));
  if (!groups.contains(id) && groups.size() >= kMostGroups) return;
  FlightGroup& group = groups[id];
  group.id = id;
  if (const Node* name = Get(entry, "process_group");
      name != nullptr && name->kind == Node::Kind::kList && name->items.size() == 2)
    group.name = TextOf(name->items[1]);
  const auto known = completed.find(id);
  const bool done = known != completed.end() ? *number <= known->second
                                             : TextOf(Get(entry, "state")) == "completed";
  group.entered = std::max(group.entered, *number);
  if (done) group.completed = std::max(group.completed, *number);
  if (done || (group.waits_in != 0 && group.waits_in <= *number)) return;
  group.waits_in = *number;
  group.call = CallOf(Get(entry, "profiling_name"));
  group.at = PlaceOf(Get(entry, "frames"));
}

}  // namespace

Result<FlightRecord> ReadFlightRecord(std::string_view bytes) {
  const auto bad = [](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, "no file of PyTorch's flight recorder: " + why);
  };
  if (bytes.size() > kLargestFlightRecord) return bad("it is larger than 16 MiB");
  Unpickler unpickler(bytes);
  const Node* record = unpickler.Read();
  if (record == nullptr) return bad("it cannot be read to its end");
  if (Get(*record, "version") == nullptr) return bad("it has no version");
  std::map<std::string, FlightGroup> groups;
  const std::map<std::string, std::int64_t> completed = CompletedOf(*record);
  if (const Node* entries = Get(*record, "entries");
      entries != nullptr && entries->kind == Node::Kind::kList) {
    for (std::size_t i = 0; i < entries->items.size() && i < kMostEntries; ++i)
      TakeEntry(*entries->items[i], completed, groups);
  }
  FlightRecord flight;
  for (auto& [id, group] : groups) {
    if (const auto last = completed.find(id); last != completed.end())
      group.completed = std::max(group.completed, last->second);
    flight.groups.push_back(std::move(group));
  }
  return flight;
}

std::string FlightLine(Rank rank, const FlightGroup& group) {
  std::string line = std::string(kFlightLine) + "rank " + std::to_string(rank) + " in group " +
                     group.id + (group.name.empty() ? "" : " (" + group.name + ")") +
                     " completed " + std::to_string(group.completed) + ", entered " +
                     std::to_string(group.entered);
  if (group.waits_in != 0) {
    line += ", waits in " + std::to_string(group.waits_in) + ": " + group.call +
            (group.at.empty() ? "" : " at " + group.at);
  }
  return line;
}

}  // namespace launch
