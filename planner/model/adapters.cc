#include "planner/model/adapters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text.h"

namespace launch {
namespace {

struct LayerNames {
  std::vector<AdaptedLayer> layers;
  std::vector<std::string_view> names;
};

// Sources: the modeling files of transformers, and PEFT's table of usual targets
// (peft/utils/constants.py). GPT-2 calls the last matrix of attention and of the MLP c_proj.
const std::vector<LayerNames>& KnownNames() {
  using enum AdaptedLayer;
  static const std::vector<LayerNames> names = {
      {{kQuery}, {"q_proj", "q", "wq", "query", "query_proj", "q_lin", "to_q"}},
      {{kKey}, {"k_proj", "k", "wk", "key", "key_proj", "k_lin", "to_k"}},
      {{kValue}, {"v_proj", "v", "wv", "value", "value_proj", "v_lin", "to_v"}},
      {{kOutput}, {"o_proj", "o", "wo", "out_proj", "out_lin", "dense", "to_out", "attn_out"}},
      {{kQkv},
       {"qkv_proj", "qkv", "wqkv", "query_key_value", "c_attn", "w_pack", "in_proj", "attn_qkv"}},
      {{kGate}, {"gate_proj", "gate", "w1", "wi_0"}},
      {{kUp},
       {"up_proj", "up", "w3", "wi", "wi_1", "fc1", "fc_in", "c_fc", "lin1", "linear1",
        "dense_h_to_4h"}},
      {{kDown}, {"down_proj", "down", "w2", "fc2", "fc_out", "lin2", "linear2", "dense_4h_to_h"}},
      {{kGateUp}, {"gate_up_proj"}},
      {{kOutput, kDown}, {"c_proj"}},
  };
  return names;
}

const std::vector<AdaptedLayer>* LayersOf(std::string_view name) {
  for (const LayerNames& known : KnownNames()) {
    if (std::find(known.names.begin(), known.names.end(), name) != known.names.end())
      return &known.layers;
  }
  return nullptr;
}

std::set<AdaptedLayer> EveryLayer(const ModelCard& card) {
  using enum AdaptedLayer;
  std::set<AdaptedLayer> layers = {kQuery, kKey, kValue, kOutput, kUp, kDown};
  if (card.gated_ffn) layers.insert(kGate);
  return layers;
}

std::set<AdaptedLayer> AdaptedLayers(const ModelCard& card, const TrainingSetup& setup) {
  return setup.adapted.empty() ? EveryLayer(card) : setup.adapted;
}

// Inputs and outputs of one matrix.
double EndsOf(AdaptedLayer layer, const ModelCard& card) {
  const double hidden = Real(card.hidden);
  const double query = Real(card.heads) * Real(card.head_dim);
  const double key = Real(card.kv_heads) * Real(card.head_dim);
  const double ffn = Real(card.ffn);
  const double experts = Real(std::max<std::int64_t>(1, card.experts));
  switch (layer) {
    case AdaptedLayer::kQuery:
    case AdaptedLayer::kOutput:
      return hidden + query;
    case AdaptedLayer::kKey:
    case AdaptedLayer::kValue:
      return hidden + key;
    case AdaptedLayer::kQkv:
      return hidden + query + 2 * key;
    case AdaptedLayer::kGate:
    case AdaptedLayer::kUp:
    case AdaptedLayer::kDown:
      return experts * (hidden + ffn);
    case AdaptedLayer::kGateUp:
      return experts * (hidden + 2 * ffn);
  }
  return 0;
}

}  // namespace

AdapterTargets AdapterTargetsOf(std::string_view targets) {
  const std::string text = Lower(targets);
  const std::string_view between = ", []\"'\t";
  AdapterTargets found;
  std::size_t end = 0;
  for (std::size_t begin = text.find_first_not_of(between); begin != std::string::npos;
       begin = text.find_first_not_of(between, end)) {
    end = std::min(text.find_first_of(between, begin), text.size());
    std::string_view name = std::string_view(text).substr(begin, end - begin);
    if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
      name.remove_prefix(dot + 1);
    if (name == "all" || name == "all-linear") return {};
    const std::vector<AdaptedLayer>* layers = LayersOf(name);
    if (layers == nullptr) return {{}, std::string(name)};
    found.layers.insert(layers->begin(), layers->end());
  }
  return found;
}

double AdapterParams(const ModelCard& card, const TrainingSetup& setup) {
  if (setup.lora_rank == 0) return 0;
  double ends = 0;
  for (const AdaptedLayer layer : AdaptedLayers(card, setup)) ends += EndsOf(layer, card);
  return Real(setup.lora_rank) * ends * Real(card.layers);
}

double TrainedParams(const ModelCard& card, const TrainingSetup& setup) {
  if (setup.lora_rank > 0) return AdapterParams(card, setup);
  return Real(card.trainable_params > 0 ? card.trainable_params : card.params);
}

double AdaptedMatrices(const ModelCard& card, const TrainingSetup& setup) {
  if (setup.lora_rank == 0) return 0;
  return static_cast<double>(AdaptedLayers(card, setup).size());
}

}  // namespace launch
