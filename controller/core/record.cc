#include "controller/core/record.h"

#include <string>
#include <variant>

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

}  // namespace

std::string PlanPrefix(const Key& attempt) { return "plan/" + Of(attempt) + "/"; }

std::string KeyOf(const Entity& entity) { return std::visit(KeyMaker{}, entity); }

}  // namespace launch::controller
