#include "agent/runner/checkpoint_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/python_json.h"

namespace launch::agent {
namespace {

using Sax = nlohmann::json_sax<nlohmann::json>;

// Knows where in the text it is: how deep, and behind which keys of the first two levels.
class Walker : public Sax {
 public:
  bool null() final { return Other(); }
  bool boolean(bool) final { return Other(); }
  bool number_integer(std::int64_t value) final { return Number(value, false); }
  bool number_unsigned(std::uint64_t value) final {
    return Number(static_cast<std::int64_t>(value), value <= INT64_MAX);
  }
  bool number_float(double, const std::string&) final { return Other(); }
  bool string(std::string& value) final { return Text(value); }
  bool binary(nlohmann::json::binary_t&) final { return false; }
  bool start_object(std::size_t) final { return Begin(true); }
  bool end_object() final { return End(); }
  bool start_array(std::size_t) final { return Begin(false); }
  bool end_array() final { return End(); }
  bool key(std::string& name) final {
    if (depth_ <= kKeys) keys_[depth_ - 1] = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) final {
    return false;
  }

 protected:
  // Each is asked whether to go on. A value lies in the object or array of depth depth().
  virtual bool Other() { return true; }
  virtual bool Text(const std::string&) { return Other(); }
  virtual bool Number(std::int64_t, bool /*natural*/) { return Other(); }
  virtual bool Entered(bool /*object*/) { return true; }  // depth() is that of what was entered
  virtual bool Left() { return true; }                    // depth() is still that of what is left

  std::size_t depth() const { return depth_; }
  const std::string& key_at(std::size_t depth) const { return keys_[depth - 1]; }

 private:
  static constexpr std::size_t kKeys = 2;
  bool Begin(bool object) {
    ++depth_;
    if (depth_ <= kKeys) keys_[depth_ - 1].clear();
    return Entered(object);
  }
  bool End() {
    const bool on = Left();
    --depth_;
    return on;
  }

  std::size_t depth_ = 0;
  std::string keys_[kKeys];
};

// {"NAME": {"data_offsets": [BEGIN, END], ...}, ..., "__metadata__": {...}}
class HeaderWalker final : public Walker {
 public:
  std::uint64_t end() const { return end_; }

 protected:
  bool Other() override { return depth() > 1 && !Offsets(); }
  bool Number(std::int64_t value, bool natural) override {
    if (depth() <= 1) return false;
    if (!Offsets()) return true;
    ++offsets_;
    if (offsets_ == 2) last_ = value;
    return natural && offsets_ <= 2;
  }
  bool Entered(bool object) override {
    if (depth() == 1) return object;
    if (depth() == 2) {
      offsets_ = 0;
      return object;
    }
    return !Offsets() || (depth() == 3 && !object);
  }
  bool Left() override {
    if (depth() != 2 || key_at(1) == "__metadata__") return true;
    end_ = std::max(end_, static_cast<std::uint64_t>(last_));
    return offsets_ == 2;
  }

 private:
  bool Offsets() const {
    return depth() >= 3 && key_at(2) == "data_offsets" && key_at(1) != "__metadata__";
  }
  int offsets_ = 0;  // seen of the present tensor
  std::int64_t last_ = 0;
  std::uint64_t end_ = 0;
};

class StepWalker final : public Walker {
 public:
  std::optional<std::int64_t> step() const { return step_; }

 protected:
  bool Entered(bool object) override { return depth() > 1 || object; }
  bool Number(std::int64_t value, bool) override {
    if (depth() == 1 && key_at(1) == "global_step") step_ = value;
    return true;
  }

 private:
  std::optional<std::int64_t> step_;
};

class ShardWalker final : public Walker {
 public:
  std::set<std::string> Take() { return std::move(shards_); }

 protected:
  bool Entered(bool object) override {
    return depth() > 2 || (depth() == 2 && key_at(1) != "weight_map") || object;
  }
  bool Text(const std::string& value) override {
    if (depth() == 2 && key_at(1) == "weight_map") shards_.insert(value);
    return shards_.size() <= kMostShards;
  }

 private:
  static constexpr std::size_t kMostShards = 100'000;
  std::set<std::string> shards_;
};

}  // namespace

std::optional<std::uint64_t> SafetensorsBytes(const std::string& header) {
  HeaderWalker walker;
  if (!nlohmann::json::sax_parse(header, &walker)) return std::nullopt;
  return walker.end();
}

std::optional<std::int64_t> GlobalStepOf(const std::string& text) {
  StepWalker walker;
  if (!nlohmann::json::sax_parse(WithoutNan(text), &walker)) return std::nullopt;
  return walker.step();
}

std::optional<std::set<std::string>> ShardsOf(const std::string& text) {
  ShardWalker walker;
  if (!nlohmann::json::sax_parse(WithoutNan(text), &walker)) return std::nullopt;
  return walker.Take();
}

}  // namespace launch::agent
