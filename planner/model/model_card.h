// ModelCard: the shape and parameter counts of a model, and where each of them comes from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/error.h"

namespace launch {

// Blocks hold about 12 hidden^2 parameters: 4 for attention and 8 for an MLP, whether it has two
// matrices of four times the width or three of 8/3 (GPT-2, Llama).
inline constexpr double kBlockParamsPerHiddenSquared = 12;

// Counts as the formulas take them: sums stay below 2^53 or are refused, so double is exact.
constexpr double Real(std::int64_t count) { return static_cast<double>(count); }

enum class Architecture {
  kUnknown,         // a script of the user's own: nothing but, perhaps, a parameter count
  kDecoder,         // GPT, Llama, Mixtral ...
  kEncoder,         // BERT, DeBERTa ...
  kEncoderDecoder,  // T5, BART ...
  kVision,          // ViT, ConvNeXt, ResNet: known by parameter count
};

// How a field came to its value, from the best to the worst.
enum class Origin {
  kUnknown,  // the field is 0: nothing is known
  kStated,   // the user, a configuration file or a table gave it
  kDerived,  // follows from stated fields
  kAssumed,  // a usual proportion, named in the note
};

struct FieldOrigin {
  Origin origin = Origin::kUnknown;
  std::string
      from;  // "hidden / heads", "usual width of a model of this size (hidden = 128 layers)"
  friend bool operator==(const FieldOrigin&, const FieldOrigin&) = default;
};

// Counts are numbers of parameters, lengths numbers of elements; 0 means unknown (or "none" for
// experts and positions). An encoder-decoder counts the layers of both halves in `layers`.
struct ModelCard {
  std::string family;  // model_type of the configuration ("llama"); empty = not known
  Architecture architecture = Architecture::kUnknown;

  std::int64_t params = 0;            // all of them: embeddings, every expert, vision tower
  std::int64_t active_params = 0;     // those one token passes; = params without experts
  std::int64_t trainable_params = 0;  // = params unless adapters are trained
  std::int64_t embedding_params = 0;  // word embedding, V h; shared with the head when tied
  std::int64_t head_params = 0;       // output projection of its own; 0 when tied
  std::int64_t layer_params = 0;      // the largest block (all its experts)

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;    // inner width of one MLP or of one expert
  bool gated_ffn = false;  // three matrices instead of two
  std::int64_t vocab = 0;
  std::int64_t seq = 0;      // longest sequence the configuration allows, not the one trained with
  bool tied = false;         // one matrix for word embedding and head
  std::int64_t experts = 0;  // routed experts of a layer; 0 = dense
  std::int64_t experts_active = 0;  // routed experts a token passes
  std::int64_t block_repeats = 1;   // passes of a token through one block's weights (ALBERT)
  std::int64_t sliding_window = 0;  // 0 = every token sees every other

  std::map<std::string, FieldOrigin> origins;  // by field name; what is not in it is unknown
  friend bool operator==(const ModelCard&, const ModelCard&) = default;
};

// Largest values accepted: beyond them products of ours would leave the exact range of a double.
inline constexpr std::int64_t kMaxParams = 100'000'000'000'000;  // 1e14
inline constexpr std::int64_t kMaxLength = 1'000'000'000;        // layers, widths, vocabulary ...

// Refuses negative and absurd values and heads that cannot be: kInvalidArgument names the field.
Result<void> CheckCard(const ModelCard& card);

// Checks the card and fills what follows from what is known, then what is usual, marking each in
// `origins`: head_dim and kv_heads from heads, embedding and head from vocab, hidden and tied; the
// block and its MLP from the parameter count and vice versa; layers and hidden from the count alone
// (hidden = 128 layers, 12 hidden^2 per block). A card without parameters and shape stays empty.
Result<ModelCard> CompleteCard(ModelCard card);

bool HasShape(const ModelCard& card);  // layers and hidden known, stated or derived
// The worst origin among parameters, layers and hidden: how far a formula may be trusted.
Origin ShapeOrigin(const ModelCard& card);

// Reads a number of parameters: "7B", "1.3b", "350M", "6738415616", "8_030_261_248"; not the name
// of a model such as "Llama-2-7B".
Result<std::int64_t> ParseParamCount(std::string_view text);

std::string_view ToString(Architecture v);
std::string_view ToString(Origin v);

}  // namespace launch
