// What the name of a checkpoint says of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace launch::agent {

// What a number in a name counts; later values are surer.
enum class Counted {
  kNothing,
  kAttached,  // "resnet50": perhaps part of a word
  kNumber,    // "ckpt_100"
  kEpochs,    // "epoch=3"
  kSteps,     // "step=100", "iter_100", "ep3-ba100"
};

struct NamedStep {
  Counted counted = Counted::kNothing;
  std::int64_t value = 0;
  friend bool operator==(const NamedStep&, const NamedStep&) = default;
};

// Whether a file of this name is one that torch.save wrote.
bool IsTorchName(const std::filesystem::path& path);

// "ckpt_100" of "out/ckpt_100.pt", and of "out/ckpt_100.pth.tar" as torch's examples call theirs.
std::string StemOf(const std::string& path);

// The surest number of `name`, of several the last. The value of a metric is none ("val_loss=0.95",
// "acc-0.91"), nor a size ("7b", "bf16"), a rank or a version.
NamedStep StepNamedBy(std::string_view name);

// A save in progress writes under this name, and gives what it wrote another at its end.
bool IsNameOfUnfinished(std::string_view name);

// What the file of one step is to the script that wrote it.
enum class FileRole {
  kResume,  // "ckpt_100.pt"
  kLast,    // "last.ckpt": the newest state, also without a number
  kResult,  // "best.pt": often weights alone
  kPart,    // "ema_100.pt", "model_optim_100.pt"
  kState,   // "optim_100.pt": without the model
};
FileRole RoleNamedBy(std::string_view stem);

// The rank in the name of a file that each rank writes its own of ("step100-rank0").
struct NamedRank {
  std::int64_t rank = 0;
  std::string save;  // the same in the names of all ranks
};
std::optional<NamedRank> RankNamedBy(std::string_view stem);

// `stem` with a mark in place of each value: the same for all files that one line of a script
// writes.
std::string SeriesNamedBy(std::string_view stem);

}  // namespace launch::agent
