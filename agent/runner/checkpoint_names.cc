#include "agent/runner/checkpoint_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>
#include <vector>

namespace launch::agent {
namespace {

using WordList = std::span<const std::string_view>;

// Also: Composer's "ep1-ba100-rank0", fairseq's updates.
constexpr std::string_view kStepWords[] = {"step",  "steps",     "globalstep", "iter",
                                           "iters", "iteration", "iterations", "it",
                                           "itr",   "update",    "updates",    "ba"};
constexpr std::string_view kEpochWords[] = {"epoch", "epochs", "ep", "e"};
// A whole number behind one of these is no step either.
constexpr std::string_view kOtherWords[] = {
    "loss", "acc",     "accuracy", "val", "eval", "test", "score", "auc",  "map",  "iou",  "miou",
    "dice", "bleu",    "rouge",    "ppl", "wer",  "cer",  "mse",   "mae",  "rmse", "psnr", "ssim",
    "fid",  "reward",  "return",   "f",   "lr",   "seed", "fold",  "rank", "gpu",  "node", "world",
    "of",   "version", "v",        "fp",  "bf",   "int",  "nf",    "tp",   "pp",   "dp"};
constexpr std::string_view kFileWords[] = {"checkpoint", "ckpt", "chkpt", "model",  "net",
                                           "snapshot",   "save", "state", "weights"};

// What the words of a file say of its role.
constexpr std::string_view kTogetherWords[] = {"and", "with"};
constexpr std::string_view kOptimizerWords[] = {"optim",  "optimizer",  "optimizers", "optimiser",
                                                "sched",  "scheduler",  "schedulers", "rng",
                                                "scaler", "gradscaler", "sampler",    "dataloader"};
constexpr std::string_view kAverageWords[] = {"ema"};
constexpr std::string_view kResultWords[] = {
    "best",   "final",    "weights",   "swa",     "avg",        "average", "averaged",
    "export", "exported", "inference", "release", "pretrained", "init",    "initial"};
constexpr std::string_view kLastWords[] = {"last",   "latest",  "newest",
                                           "recent", "current", "resume"};
constexpr std::string_view kPlainWords[] = {"checkpoint", "ckpt",  "chkpt",   "snapshot",
                                            "state",      "train", "training"};

bool IsIn(WordList words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

struct NamePart {
  enum Kind { kWord, kNumber, kMarks } kind;
  std::string text;    // words in small letters
  bool whole = false;  // of a number: no fraction, no exponent
};

std::size_t EndOf(std::string_view name, std::size_t at, bool (*in)(char)) {
  while (at < name.size() && in(name[at])) ++at;
  return at;
}

// Of the number at `at`: "0.95" and "1e-05" are one.
std::size_t EndOfNumber(std::string_view name, std::size_t at) {
  std::size_t end = EndOf(name, at, IsDigit);
  if (end + 1 < name.size() && name[end] == '.' && IsDigit(name[end + 1])) {
    end = EndOf(name, end + 1, IsDigit);
  }
  if (end < name.size() && (name[end] == 'e' || name[end] == 'E')) {
    std::size_t power = end + 1;
    if (power < name.size() && (name[power] == '-' || name[power] == '+')) ++power;
    const std::size_t last = EndOf(name, power, IsDigit);
    if (last > power) end = last;
  }
  return end;
}

std::vector<NamePart> PartsOf(std::string_view name) {
  std::vector<NamePart> parts;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    NamePart part{.kind = NamePart::kMarks, .text = {}};
    if (IsDigit(name[at])) {
      end = EndOfNumber(name, at);
      part.kind = NamePart::kNumber;
      part.whole = EndOf(name, at, IsDigit) == end;
    } else if (IsLetter(name[at])) {
      end = EndOf(name, at, IsLetter);
      part.kind = NamePart::kWord;
    } else {
      end = EndOf(name, at, [](char c) { return !IsDigit(c) && !IsLetter(c); });
    }
    for (const char c : name.substr(at, end - at)) {
      part.text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    parts.push_back(std::move(part));
    at = end;
  }
  return parts;
}

bool Holds(const std::vector<NamePart>& parts, WordList words) {
  return std::ranges::any_of(parts, [words](const NamePart& part) {
    return part.kind == NamePart::kWord && IsIn(words, part.text);
  });
}

std::string_view WordAt(const std::vector<NamePart>& parts, std::size_t at) {
  return at < parts.size() && parts[at].kind == NamePart::kWord ? parts[at].text
                                                                : std::string_view();
}

// Of the whole number at `at`, by the words around it.
NamedStep Judge(const std::vector<NamePart>& parts, std::size_t at) {
  constexpr std::size_t kMostDigits = 15;
  const auto is_marks = [&](std::size_t part) {
    return part < parts.size() && parts[part].kind == NamePart::kMarks;
  };
  if (!parts[at].whole || parts[at].text.size() > kMostDigits) return {};
  std::int64_t value = std::stoll(parts[at].text);
  const bool apart = at > 0 && is_marks(at - 1);
  const std::string_view key = WordAt(parts, at - (apart ? 2 : 1));  // beyond the end: none
  const std::string_view unit = WordAt(parts, at + 1);
  const std::string_view behind = is_marks(at + 1) ? WordAt(parts, at + 2) : unit;
  if (unit == "k") value *= 1000;
  const bool is_sum = behind == "steps" || behind == "iters" || behind == "updates";
  if (is_sum || IsIn(kStepWords, unit)) return {Counted::kSteps, value};
  if (behind == "epochs" || IsIn(kEpochWords, unit)) return {Counted::kEpochs, value};
  const bool is_size = !unit.empty() && unit != "k";
  if (is_size || behind == "of") return {};
  if (IsIn(kStepWords, key)) return {Counted::kSteps, value};
  if (IsIn(kEpochWords, key)) return {Counted::kEpochs, value};
  const bool is_value = apart && parts[at - 1].text.find('=') != std::string::npos;
  if (is_value || IsIn(kOtherWords, key)) return {};
  const bool alone = apart || key.empty() || IsIn(kFileWords, key);
  return {alone ? Counted::kNumber : Counted::kAttached, value};
}

// The optimizer's, as "opt000100"; "opt-125m" is a model.
bool HoldsOpt(const std::vector<NamePart>& parts) {
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (WordAt(parts, at) != "opt") continue;
    std::size_t next = at + 1;
    if (next < parts.size() && parts[next].kind == NamePart::kMarks) ++next;
    const bool sized = next < parts.size() && parts[next].kind == NamePart::kNumber &&
                       !WordAt(parts, next + 1).empty();
    if (!sized) return true;
  }
  return false;
}

}  // namespace

bool IsTorchName(const std::filesystem::path& path) {
  static constexpr const char* kEnds[] = {".pt", ".pth", ".ckpt", ".bin"};
  const std::string end = path.extension().string();
  if (path.native().ends_with(".pth.tar")) return true;
  return std::ranges::any_of(kEnds, [&end](const char* known) { return end == known; });
}

std::string StemOf(const std::string& path) {
  const std::filesystem::path name(path.ends_with(".pth.tar") ? path.substr(0, path.size() - 4)
                                                              : path);
  return name.stem().string();
}

NamedStep StepNamedBy(std::string_view name) {
  const std::vector<NamePart> parts = PartsOf(name);
  NamedStep best;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (parts[at].kind != NamePart::kNumber) continue;
    const NamedStep step = Judge(parts, at);
    if (step.counted != Counted::kNothing && step.counted >= best.counted) best = step;
  }
  return best;
}

// transformers 4.36 to 4.39 save into tmp-checkpoint-N, and so do scripts that took it from there;
// pytorch_lightning 0.6 to 1.5 into *.part; torch renames .metadata.tmp inside of the directory;
// tempfile's own names begin with "tmp" too.
bool IsNameOfUnfinished(std::string_view name) {
  static constexpr std::string_view kEnds[] = {"tmp",        "temp",       "part",   "partial",
                                               "incomplete", "unfinished", "saving", "writing"};
  if (name.starts_with('.')) return true;
  const std::vector<NamePart> parts = PartsOf(name);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const std::string_view word = WordAt(parts, at);
    if (word.starts_with("tmp")) return true;
    if (at > 0 && parts[at - 1].text.ends_with('.') && IsIn(kEnds, word)) return true;
  }
  return WordAt(parts, 0) == "temp";
}

FileRole RoleNamedBy(std::string_view stem) {
  const std::vector<NamePart> parts = PartsOf(stem);
  const bool together = Holds(parts, kTogetherWords);  // "model_with_optimizer"
  const bool state = Holds(parts, kOptimizerWords);
  if (!together && (state || HoldsOpt(parts))) {
    return Holds(parts, kFileWords) ? FileRole::kPart : FileRole::kState;
  }
  if (!together && Holds(parts, kAverageWords)) return FileRole::kPart;
  if (Holds(parts, kResultWords)) {
    return FileRole::kResult;
  }
  if (Holds(parts, kLastWords)) {
    return FileRole::kLast;
  }
  const bool plain = std::ranges::all_of(parts, [](const NamePart& part) {
    return part.kind == NamePart::kMarks ||
           (part.kind == NamePart::kWord && IsIn(kPlainWords, part.text));
  });
  return plain ? FileRole::kLast : FileRole::kResume;
}

std::optional<NamedRank> RankNamedBy(std::string_view stem) {
  const std::vector<NamePart> parts = PartsOf(stem);
  std::optional<NamedRank> named;
  std::string save;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const bool apart = at > 0 && parts[at - 1].kind == NamePart::kMarks;
    const bool rank = parts[at].kind == NamePart::kNumber && parts[at].whole &&
                      parts[at].text.size() < 10 && WordAt(parts, at - (apart ? 2 : 1)) == "rank";
    if (rank && !named) named = NamedRank{.rank = std::stoll(parts[at].text)};
    save += rank ? "#" : parts[at].text;
  }
  if (named) named->save = save;
  return named;
}

std::string SeriesNamedBy(std::string_view stem) {
  std::vector<NamePart> parts = PartsOf(stem);
  // Lightning's "-v1" of a name that was there already.
  if (parts.size() > 3 && parts.back().kind == NamePart::kNumber &&
      WordAt(parts, parts.size() - 2) == "v" && parts[parts.size() - 3].text == "-") {
    parts.resize(parts.size() - 3);
  }
  std::string series;
  for (const NamePart& part : parts) {
    const bool value = part.kind == NamePart::kNumber || part.text == "nan" || part.text == "inf";
    if (value) {
      series += '#';
    } else {
      series += part.kind == NamePart::kMarks ? part.text.substr(0, 1) : part.text;
    }
  }
  return series;
}

}  // namespace launch::agent
