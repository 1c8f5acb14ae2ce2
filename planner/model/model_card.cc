#include "planner/model/model_card.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/units.h"

namespace launch {

namespace {

// hidden / layers of published models of 1B to 70B lies between 60 and 130; GPT-3's table has 128.
constexpr double kHiddenPerLayer = 128;
constexpr std::int64_t kUsualHeadDim = 128;
constexpr std::int64_t kUsualVocab = 32000;

void Mark(ModelCard& card, const char* field, Origin origin, std::string from) {
  card.origins[field] = FieldOrigin{origin, std::move(from)};
}

Unexpected BadField(const char* field, std::int64_t value, const std::string& rule) {
  return Fail(ErrorCode::kInvalidArgument,
              std::string("model: ") + field + " is " + std::to_string(value) + ", " + rule,
              "give the figures of the model's configuration file");
}

// Sizes beyond every limit stay representable; CheckCard refuses them afterwards.
std::int64_t WholeNumber(double value) { return std::llround(std::clamp(value, 0.0, 1e18)); }

struct Named {
  const char* name;
  std::int64_t value;
};

std::vector<Named> CountFields(const ModelCard& card) {
  return {{"params", card.params},
          {"active_params", card.active_params},
          {"trainable_params", card.trainable_params},
          {"embedding_params", card.embedding_params},
          {"head_params", card.head_params},
          {"layer_params", card.layer_params}};
}

std::vector<Named> Lengths(const ModelCard& card) {
  return {{"layers", card.layers},
          {"hidden", card.hidden},
          {"heads", card.heads},
          {"kv_heads", card.kv_heads},
          {"head_dim", card.head_dim},
          {"ffn", card.ffn},
          {"vocab", card.vocab},
          {"seq", card.seq},
          {"experts", card.experts},
          {"experts_active", card.experts_active},
          {"sliding_window", card.sliding_window}};
}

void MarkStated(ModelCard& card) {
  for (const auto& fields : {CountFields(card), Lengths(card)})
    for (const Named& field : fields)
      if (field.value > 0) card.origins.try_emplace(field.name, FieldOrigin{Origin::kStated, {}});
}

void DeriveAttention(ModelCard& card) {
  if (card.heads == 0 && card.hidden > 0) {
    card.heads = std::max<std::int64_t>(1, card.hidden / kUsualHeadDim);
    Mark(card, "heads", Origin::kAssumed, "heads of 128");
  }
  if (card.heads == 0) return;
  if (card.kv_heads == 0) {
    card.kv_heads = card.heads;
    Mark(card, "kv_heads", Origin::kAssumed, "as many as heads");
  }
  if (card.head_dim == 0 && card.hidden > 0) {
    card.head_dim = std::max<std::int64_t>(1, card.hidden / card.heads);
    Mark(card, "head_dim", Origin::kDerived, "hidden / heads");
  }
}

double AttentionParams(const ModelCard& card) {
  const double hidden = static_cast<double>(card.hidden);
  const double query = static_cast<double>(card.heads) * static_cast<double>(card.head_dim);
  const double key = static_cast<double>(card.kv_heads) * static_cast<double>(card.head_dim);
  return 2 * hidden * query + 2 * hidden * key;
}

bool IsEightSquared(double mlp, double hidden) {
  return std::fabs(mlp / (8 * hidden * hidden) - 1) < 0.005;
}

// A plain MLP shows in the count; so does a head of its own that somebody called shared.
void CorrectTied(ModelCard& card) {
  if (!card.tied || card.params == 0 || card.vocab == 0 || !HasShape(card)) return;
  const double hidden = static_cast<double>(card.hidden);
  const double words = static_cast<double>(card.vocab) * hidden;
  const double block =
      (static_cast<double>(card.params) - 2 * words) / static_cast<double>(card.layers);
  if (card.ffn > 0 ||
      std::fabs(block / (kBlockParamsPerHiddenSquared * hidden * hidden) - 1) > 0.002)
    return;
  card.tied = false;
  Mark(card, "tied", Origin::kDerived, "the parameters hold the word embedding twice");
}

// The MLP's width from the block's parameters. Two matrices of 4 hidden have exactly 8 hidden^2;
// gated ones are rounded to multiples of 64 or more and so nearly never do.
void DeriveFfn(ModelCard& card) {
  if (card.ffn > 0 || card.hidden == 0 || card.layer_params == 0) return;
  const double hidden = static_cast<double>(card.hidden);
  const double experts = static_cast<double>(std::max<std::int64_t>(1, card.experts));
  double mlp = (static_cast<double>(card.layer_params) - AttentionParams(card)) / experts;
  const char* from = "parameters of a block that are not attention";
  Origin origin = Origin::kDerived;
  if (mlp < hidden * hidden) {
    mlp = 8 * hidden * hidden;
    from = "8 hidden^2 parameters in an MLP";
    origin = Origin::kAssumed;
  }
  card.gated_ffn = card.architecture != Architecture::kEncoder && !IsEightSquared(mlp, hidden);
  card.ffn = WholeNumber(mlp / ((card.gated_ffn ? 3 : 2) * hidden));
  Mark(card, "ffn", origin, from);
}

void DeriveEmbedding(ModelCard& card) {
  if (card.vocab == 0 || card.hidden == 0) return;
  if (card.embedding_params == 0) {
    card.embedding_params = card.vocab * card.hidden;
    Mark(card, "embedding_params", Origin::kDerived, "vocab x hidden");
  }
  const bool has_head = card.architecture == Architecture::kDecoder ||
                        card.architecture == Architecture::kEncoderDecoder ||
                        card.architecture == Architecture::kUnknown;
  if (card.head_params == 0 && !card.tied && has_head) {
    card.head_params = card.vocab * card.hidden;
    Mark(card, "head_params", Origin::kDerived, "vocab x hidden");
  }
}

void DeriveBlocks(ModelCard& card) {
  if (card.layers == 0 || card.hidden == 0) return;
  const double hidden = static_cast<double>(card.hidden);
  if (card.layer_params == 0 && card.ffn > 0) {
    const double experts = static_cast<double>(std::max<std::int64_t>(1, card.experts));
    card.layer_params =
        WholeNumber(AttentionParams(card) +
                    experts * (card.gated_ffn ? 3 : 2) * hidden * static_cast<double>(card.ffn));
    Mark(card, "layer_params", std::max(Origin::kDerived, card.origins["ffn"].origin),
         "attention and MLP matrices");
  }
  if (card.layer_params == 0 && card.params > 0) {
    const std::int64_t outside = card.embedding_params + card.head_params;
    const std::int64_t inside = card.params > outside ? card.params - outside : card.params;
    card.layer_params = std::max<std::int64_t>(1, inside / card.layers);
    Mark(card, "layer_params", Origin::kDerived, "(params - embeddings) / layers");
  }
  if (card.layer_params == 0) {
    card.layer_params = WholeNumber(kBlockParamsPerHiddenSquared * hidden * hidden);
    Mark(card, "layer_params", Origin::kAssumed, "12 hidden^2");
  }
  if (card.params == 0) {
    const double params =
        static_cast<double>(card.layers) * static_cast<double>(card.layer_params) +
        static_cast<double>(card.embedding_params + card.head_params);
    card.params = WholeNumber(params);
    const bool assumed = card.origins["layer_params"].origin == Origin::kAssumed;
    Mark(card, "params", assumed ? Origin::kAssumed : Origin::kDerived,
         "layers x block + embeddings");
  }
}

// Shape from the parameter count alone: params = 12 layers hidden^2 + 2 vocab hidden with
// hidden = 128 layers, solved by bisection and rounded to a multiple of 128.
void AssumeShape(ModelCard& card) {
  const double params = static_cast<double>(card.params);
  const double vocab = static_cast<double>(card.vocab > 0 ? card.vocab : kUsualVocab);
  const auto total = [&](double hidden) {
    const double layers =
        card.layers > 0 ? static_cast<double>(card.layers) : hidden / kHiddenPerLayer;
    return kBlockParamsPerHiddenSquared * layers * hidden * hidden +
           (card.tied ? 1 : 2) * vocab * hidden;
  };
  if (card.hidden == 0) {
    double low = 1;
    double high = 1e7;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (total(middle) < params ? low : high) = middle;
    }
    card.hidden = std::max<std::int64_t>(128, 128 * std::llround(low / 128));
    Mark(card, "hidden", Origin::kAssumed, "usual width of a model of this size");
  }
  if (card.layers == 0) {
    const double hidden = static_cast<double>(card.hidden);
    const double inside = std::max(0.5 * params, params - (card.tied ? 1 : 2) * vocab * hidden);
    card.layers = std::clamp<std::int64_t>(
        std::llround(inside / (kBlockParamsPerHiddenSquared * hidden * hidden)), 1, 100'000);
    Mark(card, "layers", Origin::kAssumed, "12 hidden^2 parameters in a block");
  }
  if (card.vocab == 0) {
    card.vocab = kUsualVocab;
    Mark(card, "vocab", Origin::kAssumed, "a usual vocabulary");
  }
}

bool IsTransformer(const ModelCard& card) { return card.architecture != Architecture::kVision; }

}  // namespace

Result<void> CheckCard(const ModelCard& card) {
  for (const Named& field : CountFields(card)) {
    if (field.value < 0) return BadField(field.name, field.value, "below zero");
    if (field.value > kMaxParams)
      return BadField(field.name, field.value, "more than 1e14 parameters");
  }
  for (const Named& field : Lengths(card)) {
    if (field.value < 0) return BadField(field.name, field.value, "below zero");
    if (field.value > kMaxLength) return BadField(field.name, field.value, "larger than 1e9");
  }
  if (card.layers > 100'000) return BadField("layers", card.layers, "more than 100,000");
  if (card.hidden > 10'000'000) return BadField("hidden", card.hidden, "more than 10,000,000");
  if (card.heads > 0 && card.kv_heads > card.heads)
    return BadField("kv_heads", card.kv_heads,
                    "more than the " + std::to_string(card.heads) + " heads");
  if (card.experts_active > card.experts)
    return BadField("experts_active", card.experts_active,
                    "more than the " + std::to_string(card.experts) + " experts");
  if (card.params > 0 && card.active_params > card.params)
    return BadField("active_params", card.active_params, "more than all parameters");
  const double words = card.embedding_params > 0 ? Real(card.embedding_params)
                                                 : Real(card.vocab) * Real(card.hidden);
  if (card.params > 0 && words > 1.05 * Real(card.params))
    return BadField("params", card.params, "fewer than the word embedding alone (vocab x hidden)");
  return {};
}

Result<ModelCard> CompleteCard(ModelCard card) {
  LAUNCH_RETURN_IF_ERROR(CheckCard(card));
  MarkStated(card);
  if (IsTransformer(card)) {
    if (card.params > 0 && !HasShape(card)) AssumeShape(card);
    CorrectTied(card);
    DeriveAttention(card);
    DeriveEmbedding(card);
    if (card.params == 0 && card.ffn == 0 && card.layer_params == 0 && card.hidden > 0 &&
        card.layers > 0) {
      card.ffn = 4 * card.hidden;
      Mark(card, "ffn", Origin::kAssumed, "4 hidden");
    }
    DeriveBlocks(card);
    DeriveFfn(card);
  }
  if (card.active_params == 0 && card.params > 0) {
    card.active_params = card.params;
    const double idle = static_cast<double>(card.experts - card.experts_active) *
                        (card.gated_ffn ? 3 : 2) * static_cast<double>(card.hidden) *
                        static_cast<double>(card.ffn) * static_cast<double>(card.layers);
    if (card.experts > 0 && idle < static_cast<double>(card.params)) {
      card.active_params = card.params - std::llround(idle);
      Mark(card, "active_params", Origin::kDerived, "params - idle experts");
    }
  }
  if (card.trainable_params == 0 && card.params > 0) {
    card.trainable_params = card.params;
    Mark(card, "trainable_params", Origin::kDerived, "all");
  }
  LAUNCH_RETURN_IF_ERROR(CheckCard(card));
  return card;
}

bool HasShape(const ModelCard& card) { return card.layers > 0 && card.hidden > 0; }

Origin ShapeOrigin(const ModelCard& card) {
  Origin worst = Origin::kStated;
  for (const char* field : {"params", "layers", "hidden"}) {
    const auto found = card.origins.find(field);
    const Origin origin = found == card.origins.end() ? Origin::kUnknown : found->second.origin;
    if (origin == Origin::kUnknown) return Origin::kUnknown;
    worst = std::max(worst, origin);
  }
  return worst;
}

Result<std::int64_t> ParseParamCount(std::string_view text) {
  const auto bad = [&] {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(text) + "\" is not a number of parameters",
                "write 7B, 1.3B, 350M or 6738415616");
  };
  std::string digits;
  for (const char c : text)
    if (c != '_') digits += c;
  if (digits.empty()) return bad();
  double factor = 1;
  switch (digits.back()) {
    case 'k':
    case 'K':
      factor = 1e3;
      break;
    case 'm':
    case 'M':
      factor = 1e6;
      break;
    case 'b':
    case 'B':
      factor = 1e9;
      break;
    case 't':
    case 'T':
      factor = 1e12;
      break;
    default:
      break;
  }
  if (factor > 1) digits.pop_back();
  const auto number = ParseDouble(digits);
  if (!number || *number <= 0) return bad();
  const double value = *number * factor;
  if (value < 1 || value > static_cast<double>(kMaxParams))
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(text) + "\" is not between 1 and 1e14 parameters");
  return std::llround(value);
}

std::string_view ToString(Architecture v) {
  switch (v) {
    case Architecture::kUnknown:
      return "unknown";
    case Architecture::kDecoder:
      return "decoder";
    case Architecture::kEncoder:
      return "encoder";
    case Architecture::kEncoderDecoder:
      return "encoder-decoder";
    case Architecture::kVision:
      return "vision";
  }
  return "unknown";
}

std::string_view ToString(Origin v) {
  switch (v) {
    case Origin::kUnknown:
      return "unknown";
    case Origin::kStated:
      return "stated";
    case Origin::kDerived:
      return "derived";
    case Origin::kAssumed:
      return "assumed";
  }
  return "unknown";
}

}  // namespace launch
