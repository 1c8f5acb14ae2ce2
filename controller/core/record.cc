#include "controller/core/record.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

namespace launch::controller {
namespace {

// Ten and twenty digits hold every 32- and 64-bit number, so that key order is number order.
std::string Padded(std::uint64_t value, std::size_t digits) {
  const std::string text = std::to_string(value);
  return std::string(digits - text.size(), '0') + text;
}
std::string Of(const JobId& job) { return Padded(job.value, 20); }
std::string Of(const Key& key) { return Of(key.job) + "/" + Padded(key.attempt.value, 10); }
std::string Of(std::uint32_t number) { return Padded(number, 10); }

struct KeyMaker {
  std::string operator()(const ClusterRecord&) const { return "cluster"; }
  std::string operator()(const JobRecord& v) const { return "job/" + Of(v.id); }
  std::string operator()(const SpecRecord& v) const { return "spec/" + Of(v.id); }
  std::string operator()(const PlanChunkRecord& v) const { return PlanPrefix(v.key) + Of(v.chunk); }
  std::string operator()(const AttemptRecord& v) const { return "attempt/" + Of(v.key); }
  std::string operator()(const AllocRecord& v) const {
    return "alloc/" + Of(v.key) + "/" + v.node.value;
  }
  std::string operator()(const RankRecord& v) const {
    return "rank/" + Of(v.key) + "/" + Of(static_cast<std::uint32_t>(v.rank));
  }
  std::string operator()(const NodeRecord& v) const { return "node/" + v.id.value; }
  std::string operator()(const InventoryRecord& v) const {
    return "inventory/" + v.inventory.node.value;
  }
  std::string operator()(const GpuRecord& v) const { return "gpu/" + v.uuid.value; }
  std::string operator()(const UserRecord& v) const { return "user/" + v.name.value; }
  std::string operator()(const JoinRecord& v) const { return "join/" + v.serial; }
  std::string operator()(const DenyRecord& v) const { return "deny/" + v.serial; }
  std::string operator()(const IdemRecord& v) const { return "idem/" + v.user.value + "/" + v.key; }
  std::string operator()(const SecretRecord& v) const {
    return "secret/" + Of(v.job) + "/" + v.name;
  }
};

std::uint64_t NumberOf(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The words of a key after its kind; the last one keeps its slashes.
class KeyWords {
 public:
  explicit KeyWords(std::string_view rest) : rest_(rest) {}
  std::string_view Next() {
    const std::size_t end = std::min(rest_.find('/'), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  std::string Rest() const { return std::string(rest_); }
  std::uint64_t Number() { return NumberOf(Next()); }
  JobId Job() { return JobId{Number()}; }
  Key Attempt() {
    const JobId job = Job();
    return {job, launch::Attempt{static_cast<std::uint32_t>(Number())}};
  }

 private:
  std::string_view rest_;
};

template <class Record>
Entity OfAttempt(KeyWords& words, auto set_last) {
  Record record;
  record.key = words.Attempt();
  set_last(record);
  return record;
}

Entity OfNode(const std::string& kind, const std::string& name) {
  if (kind == "node") {
    NodeRecord record;
    record.id = NodeId{name};
    return record;
  }
  InventoryRecord record;
  record.inventory.node = NodeId{name};
  return record;
}

}  // namespace

std::optional<Entity> EntityOfKey(std::string_view key) {
  const std::string kind(key.substr(0, key.find('/')));
  if (kind.size() == key.size()) return std::nullopt;
  KeyWords words(key.substr(kind.size() + 1));
  if (kind == "job") {
    JobRecord record;
    record.id = words.Job();
    return record;
  }
  if (kind == "spec") {
    SpecRecord record;
    record.id = words.Job();
    return record;
  }
  if (kind == "attempt") return OfAttempt<AttemptRecord>(words, [](AttemptRecord&) {});
  if (kind == "plan") {
    return OfAttempt<PlanChunkRecord>(words, [&](PlanChunkRecord& record) {
      record.chunk = static_cast<std::uint32_t>(words.Number());
    });
  }
  if (kind == "rank") {
    return OfAttempt<RankRecord>(
        words, [&](RankRecord& record) { record.rank = static_cast<Rank>(words.Number()); });
  }
  if (kind == "alloc") {
    return OfAttempt<AllocRecord>(words,
                                  [&](AllocRecord& record) { record.node = NodeId{words.Rest()}; });
  }
  if (kind == "idem") {
    IdemRecord record;
    record.user = UserName{std::string(words.Next())};
    record.key = words.Rest();
    return record;
  }
  if (kind == "secret") {
    SecretRecord record;
    record.job = words.Job();
    record.name = words.Rest();
    return record;
  }
  if (kind == "gpu") {
    GpuRecord record;
    record.uuid = GpuUuid{words.Rest()};
    return record;
  }
  if (kind == "node" || kind == "inventory") return OfNode(kind, words.Rest());
  return std::nullopt;
}

std::string PlanPrefix(const Key& attempt) { return "plan/" + Of(attempt) + "/"; }

std::string KeyOf(const Entity& entity) { return std::visit(KeyMaker{}, entity); }

}  // namespace launch::controller
