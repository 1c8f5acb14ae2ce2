#include "planner/line/deepspeed_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "planner/line/deepspeed_keys.h"
#include "planner/line/hjson.h"

namespace launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 32;
constexpr double kMostOfAnything = 1e12;

// "2e8", "1.0", "0.25": as people write them in these files.
std::string ShortNumber(double value) {
  int zeros = 0;
  double mantissa = value;
  while (value >= 1e5 && mantissa >= 10 && std::fmod(mantissa, 10) == 0) {
    mantissa /= 10;
    ++zeros;
  }
  if (zeros > 0)
    return std::to_string(static_cast<std::int64_t>(mantissa)) + "e" + std::to_string(zeros);
  return Json(value).dump();
}

// The usual parser keeps the last of two equal keys, and so does DeepSpeed after refusing the file
// (config_utils.dict_raise_error_on_duplicate_keys): refuse it here, with the key.
Result<Json> ParseStrictly(std::string_view text, const std::string& path, bool hjson) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxJsonDepth) deep = true;
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty()) {
      const auto key = parsed.get<std::string>();
      if (!open.back().insert(key).second && twice.empty()) twice = key;
    }
    return !deep;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (deep) {
    return Fail(ErrorCode::kInvalidArgument, path + " is nested too deeply",
                "no configuration of DeepSpeed is");
  }
  if (json.is_discarded()) {
    std::string what = path + " is not JSON";
    if (hjson) {
      what +=
          ": DeepSpeed itself takes its comments, commas and bare words, but here accelerate or "
          "the Hugging Face trainer reads it, with Python's json";
    }
    return Fail(ErrorCode::kInvalidArgument, what, "check it with: python -m json.tool " + path);
  }
  if (!json.is_object()) {
    return Fail(ErrorCode::kInvalidArgument, path + " is not a JSON object",
                "DeepSpeed wants {\"zero_optimization\": {...}, ...}");
  }
  if (!twice.empty()) {
    return Fail(ErrorCode::kInvalidArgument, path + ": \"" + twice + "\" is given twice",
                "leave one of the two out");
  }
  return json;
}

// Reads one file; the first problem ends it.
class DeepspeedReader {
 public:
  DeepspeedReader(const Json& json, const std::string& path) : json_(json) { config_.path = path; }

  Result<DeepspeedConfig> Read() {
    Find("", json_, "");
    ReadBatch();
    ReadPrecision();
    ReadZero();
    config_.gradient_clipping = Number(json_, "gradient_clipping", "");
    if (const Json* optimizer = Block(json_, "optimizer", "")) {
      const auto type = optimizer->find("type");
      if (type != optimizer->end() && type->is_string())
        config_.optimizer = type->get<std::string>();
    }
    if (error_) return Unexpected(*error_);
    Describe();
    return std::move(config_);
  }

 private:
  void Refuse(const std::string& key, const std::string& what, std::string hint) {
    if (error_) return;
    error_ =
        Error{ErrorCode::kInvalidArgument, config_.path + ": " + key + " " + what, std::move(hint)};
  }

  // Collects "auto" and compares the keys of the known blocks, all the way down.
  void Find(const std::string& block, const Json& object, const std::string& prefix) {
    const std::vector<std::string>& known = DeepspeedKeys(block);
    for (const auto& [key, value] : object.items()) {
      const std::string name = prefix + key;
      if (value.is_string() && value.get<std::string>() == "auto")
        config_.automatic.push_back(name);
      const bool strange =
          !known.empty() && std::find(known.begin(), known.end(), key) == known.end();
      if (strange) {
        const std::string near = NearestName(key, known);
        config_.findings.push_back(
            MakeFinding("ds_config_unknown_key", Severity::kWarning,
                        config_.path + ": DeepSpeed does not know \"" + name +
                            "\" and ignores it without a word",
                        near.empty() ? "leave it out" : "write \"" + near + "\""));
      }
      if (value.is_object()) Find(key, value, name + ".");
    }
  }

  const Json* Block(const Json& object, const std::string& key, const std::string& prefix) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return nullptr;
    if (found->is_object()) return &*found;
    Refuse(prefix + key, "is not an object", "write \"" + key + "\": {...}");
    return nullptr;
  }

  std::optional<double> Number(const Json& object, const std::string& key,
                               const std::string& prefix) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null() || *found == "auto") return std::nullopt;
    if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < 0) {
      Refuse(prefix + key, "is not a number from 0", "write a number, or leave it out");
      return std::nullopt;
    }
    return found->get<double>();
  }

  std::optional<std::int64_t> Count(const Json& object, const std::string& key,
                                    const std::string& prefix) {
    const auto number = Number(object, key, prefix);
    if (!number) return std::nullopt;
    if (*number < 1 || *number > kMostOfAnything || *number != std::floor(*number)) {
      Refuse(prefix + key, "is not a whole number from 1", "write a whole number");
      return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
  }

  std::optional<bool> Truth(const Json& object, const std::string& key, const std::string& prefix) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null() || *found == "auto") return std::nullopt;
    if (!found->is_boolean()) {
      Refuse(prefix + key, "is not true or false", "write true or false without quotes");
      return std::nullopt;
    }
    return found->get<bool>();
  }

  void ReadBatch() {
    config_.train_batch = Count(json_, "train_batch_size", "");
    config_.micro = Count(json_, "train_micro_batch_size_per_gpu", "");
    config_.accumulate = Count(json_, "gradient_accumulation_steps", "");
  }

  void ReadPrecision() {
    const auto enabled = [&](const char* key) {
      const Json* block = Block(json_, key, "");
      return block != nullptr && Truth(*block, "enabled", std::string(key) + ".").value_or(false);
    };
    const bool bf16 = enabled("bf16") || enabled("bfloat16");
    const bool fp16 = enabled("fp16");
    if (bf16 && fp16) {
      Refuse("bf16.enabled and fp16.enabled", "are both true", "enable one of them");
    }
    if (bf16) config_.precision = Precision::kBf16;
    if (fp16) config_.precision = Precision::kFp16;
  }

  // {"device": "cpu"}: nvme counts as host memory's next station and is offload all the same.
  bool Offloads(const Json& zero, const char* key, const char* old_key) {
    if (const Json* block = Block(zero, key, "zero_optimization.")) {
      const auto device = block->find("device");
      const std::string name =
          device != block->end() && device->is_string() ? device->get<std::string>() : "none";
      if (name != "none" && name != "cpu" && name != "nvme" && name != "auto") {
        Refuse("zero_optimization." + std::string(key) + ".device", "is \"" + name + "\"",
               "DeepSpeed knows none, cpu and nvme");
      }
      config_.pin_memory =
          Truth(*block, "pin_memory", "zero_optimization." + std::string(key) + ".").value_or(true);
      return name == "cpu" || name == "nvme";
    }
    return Truth(zero, old_key, "zero_optimization.").value_or(false);
  }

  void ReadZero() {
    const Json* zero = Block(json_, "zero_optimization", "");
    if (zero == nullptr) {
      config_.stage = 0;  // DeepSpeedZeroConfig's own
      return;
    }
    const auto stage = Number(*zero, "stage", "zero_optimization.");
    if (stage && *stage != 0 && *stage != 1 && *stage != 2 && *stage != 3) {
      Refuse("zero_optimization.stage", "is not 0, 1, 2 or 3", "write one of the stages");
      return;
    }
    const auto automatic = zero->find("stage");
    if (automatic == zero->end() || *automatic != "auto") {
      config_.stage = static_cast<int>(stage.value_or(0));
    }
    const bool optimizer = Offloads(*zero, "offload_optimizer", "cpu_offload");
    const bool parameters = Offloads(*zero, "offload_param", "cpu_offload_param");
    const bool stage3 = config_.stage == 3;
    if (optimizer) config_.offload = Offload::kOptimizer;
    if (optimizer && parameters && stage3) config_.offload = Offload::kAll;
    config_.weights_alone = parameters && stage3 && !optimizer;
    config_.reduce_bucket = Number(*zero, "reduce_bucket_size", "zero_optimization.");
    config_.gather_bucket = Number(*zero, "allgather_bucket_size", "zero_optimization.");
    config_.overlap_comm = Truth(*zero, "overlap_comm", "zero_optimization.");
    if (!config_.stage || stage3) return;
    for (const auto& [key, value] : zero->items()) {
      if (!OnlyStage3(key)) continue;
      const std::string at = std::to_string(*config_.stage);
      config_.findings.push_back(MakeFinding("ds_config_no_effect", Severity::kWarning,
                                             config_.path + ": zero_optimization." + key +
                                                 " has no effect at stage " + at +
                                                 ": DeepSpeed reads it at stage 3 only",
                                             "write \"stage\": 3, or leave it out"));
    }
  }

  void Describe() {
    std::string text = config_.path + ":";
    const auto add = [&](const std::string& part) {
      text += (text.back() == ':' ? " " : ", ") + part;
    };
    if (config_.stage) add("ZeRO stage " + std::to_string(*config_.stage));
    if (config_.offload == Offload::kOptimizer) add("optimizer offload");
    if (config_.offload == Offload::kAll) add("optimizer and parameter offload");
    if (config_.weights_alone) add("parameter offload");
    if (config_.reduce_bucket) add("reduce bucket " + ShortNumber(*config_.reduce_bucket));
    if (config_.gather_bucket) add("allgather bucket " + ShortNumber(*config_.gather_bucket));
    if (config_.gradient_clipping)
      add("gradient clipping " + ShortNumber(*config_.gradient_clipping));
    if (config_.precision) add(std::string(ToString(*config_.precision)));
    if (config_.train_batch) add("train_batch_size " + std::to_string(*config_.train_batch));
    if (config_.micro) add("micro-batch " + std::to_string(*config_.micro));
    if (config_.accumulate) add("accumulation " + std::to_string(*config_.accumulate));
    if (!config_.optimizer.empty()) add("optimizer " + config_.optimizer);
    if (!config_.automatic.empty()) {
      add(std::to_string(config_.automatic.size()) + " values \"auto\", filled by the trainer");
    }
    if (text.back() == ':') text += " nothing that changes the plan";
    config_.read.push_back(std::move(text));
  }

  const Json& json_;
  DeepspeedConfig config_;
  std::optional<Error> error_;
};

}  // namespace

Result<DeepspeedConfig> ReadDeepspeedConfig(std::string_view text, const std::string& path,
                                            ConfigReader reader) {
  std::optional<std::string> hjson;
  if (!Json::accept(text)) {
    const auto converted = JsonOfHjson(text);
    if (!converted && reader == ConfigReader::kDeepspeed) {
      return Fail(
          ErrorCode::kInvalidArgument,
          path + " is neither JSON nor Hjson, which DeepSpeed reads: " + converted.error().message,
          "correct that place");
    }
    if (converted) hjson = *converted;
  }
  const bool as_hjson = reader == ConfigReader::kDeepspeed && hjson;
  LAUNCH_ASSIGN_OR_RETURN(const Json json, ParseStrictly(as_hjson ? std::string_view(*hjson) : text,
                                                         path, hjson.has_value()));
  return DeepspeedReader(json, path).Read();
}

std::string WriteDeepspeedConfig(const DeepspeedPlan& plan) {
  Json json;
  json["train_batch_size"] = plan.global;
  json["train_micro_batch_size_per_gpu"] = plan.micro;
  json["gradient_accumulation_steps"] = plan.accumulate;
  // fp8 is of the products alone: weights and states are those of bf16.
  json["bf16"] = {
      {"enabled", plan.precision == Precision::kBf16 || plan.precision == Precision::kFp8}};
  json["fp16"] = {{"enabled", plan.precision == Precision::kFp16}};
  if (plan.precision == Precision::kFp16) {
    json["fp16"]["loss_scale"] = 0;  // dynamic
    json["fp16"]["initial_scale_power"] = 16;
    json["fp16"]["loss_scale_window"] = 1000;
    json["fp16"]["hysteresis"] = 2;
    json["fp16"]["min_loss_scale"] = 1;
  }
  if (plan.gradient_clipping) json["gradient_clipping"] = *plan.gradient_clipping;
  const auto bucket = static_cast<std::int64_t>(plan.bucket);
  Json& zero = json["zero_optimization"];
  zero["stage"] = plan.stage;
  zero["overlap_comm"] = true;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = true;
  zero["reduce_bucket_size"] = bucket;
  zero["allgather_bucket_size"] = bucket;
  if (plan.offload != Offload::kNone) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", plan.pin_memory}};
  }
  if (plan.offload == Offload::kAll && plan.stage == 3) {
    zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", plan.pin_memory}};
  }
  if (plan.stage == 3) {
    // What accelerate and the Hugging Face trainer write for "auto".
    if (plan.hidden > 0) {
      zero["reduce_bucket_size"] = plan.hidden * plan.hidden;
      zero["stage3_prefetch_bucket_size"] = plan.hidden * plan.hidden * 9 / 10;
      zero["stage3_param_persistence_threshold"] = 10 * plan.hidden;
    }
    // Checkpoints as people expect them, in one file per shard of the model.
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
  }
  return json.dump(2) + "\n";
}

}  // namespace launch
