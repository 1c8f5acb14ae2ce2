#include "controller/plan_codec.h"

#include <cstdint>

#include "common/pki.h"
#include "controller/store/record_codec.h"
#include "proto/convert_node.h"

// Layout: "LPLN", version 1, then parts, each a little-endian u32 length and its bytes: the plan,
// then spec bytes and digest of each allocation in node order.
namespace launch::controller {
namespace {

constexpr std::string_view kMagic("LPLN\x01", 5);

void AppendPart(std::string& out, std::string_view part) {
  const auto size = static_cast<std::uint32_t>(part.size());
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(size >> shift));
  out.append(part);
}

Result<std::string_view> Next(std::string_view& bytes) {
  if (bytes.size() < 4) return Fail(ErrorCode::kDataLoss, "stored plan is cut off");
  std::uint32_t size = 0;
  for (int i = 3; i >= 0; --i) size = (size << 8) | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(4);
  if (bytes.size() < size) return Fail(ErrorCode::kDataLoss, "stored plan is cut off");
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

}  // namespace

std::string EncodeStoredPlan(const Plan& plan, const std::vector<PlannedAllocation>& allocations) {
  std::string out(kMagic);
  AppendPart(out, SerializePlan(plan));
  for (const PlannedAllocation& allocation : allocations) {
    AppendPart(out, allocation.bytes);
    AppendPart(out, allocation.digest);
  }
  return out;
}

Result<StoredPlan> DecodeStoredPlan(std::string_view bytes, const std::string& expected) {
  if (Sha256Hex(bytes) != expected) {
    return Fail(ErrorCode::kDataLoss, "a stored plan does not match its digest");
  }
  if (!bytes.starts_with(kMagic)) {
    return Fail(ErrorCode::kDataLoss, "stored plan has an unknown format",
                "was it written by a newer version?");
  }
  bytes.remove_prefix(kMagic.size());
  StoredPlan stored;
  LAUNCH_ASSIGN_OR_RETURN(const std::string_view plan, Next(bytes));
  LAUNCH_ASSIGN_OR_RETURN(stored.plan, ParsePlan(plan));
  while (!bytes.empty()) {
    PlannedAllocation allocation;
    LAUNCH_ASSIGN_OR_RETURN(const std::string_view spec, Next(bytes));
    LAUNCH_ASSIGN_OR_RETURN(const std::string_view digest, Next(bytes));
    if (DigestOfSpec(spec) != digest) {
      return Fail(ErrorCode::kDataLoss, "a stored allocation does not match its digest");
    }
    allocation.bytes = spec;
    allocation.digest = digest;
    LAUNCH_ASSIGN_OR_RETURN(allocation.spec, ParseSpec(spec));
    stored.allocations.push_back(std::move(allocation));
  }
  return stored;
}

Result<StoredPlan> ReadStoredPlan(Store& store, const effect::ReadPlans::Stored& plan) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<StoredRow> rows, store.Read(PlanPrefix(plan.attempt)));
  std::string bytes;
  for (const StoredRow& row : rows) {
    LAUNCH_ASSIGN_OR_RETURN(const Entity entity, DecodeRecord(row.key, row.value));
    const auto& chunk = std::get<PlanChunkRecord>(entity);
    if (chunk.chunk < plan.chunks) bytes += chunk.bytes;
  }
  return DecodeStoredPlan(bytes, plan.digest);
}

}  // namespace launch::controller
