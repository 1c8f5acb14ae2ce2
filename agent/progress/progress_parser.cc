#include "agent/progress/progress_parser.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/progress/progress_patterns.h"
#include "common/bounded_number.h"
#include "common/python_json.h"
#include "common/units.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxLine = 64 * 1024;
constexpr std::size_t kMaxBars = 64;
constexpr std::size_t kMaxSeen = 64;
constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;  // what the patterns read: 15 digits

std::int64_t ToInt(re2::StringPiece text) {
  return ParseInt(std::string_view(text.data(), text.size())).value_or(0);
}

// "1:30:00" -> 5400; absent for "?".
std::optional<double> ClockSeconds(re2::StringPiece text) {
  if (text.empty() || text[0] == '?') return std::nullopt;
  double seconds = 0;
  double part = 0;
  for (const char c : text) {
    if (c == ':') {
      seconds = (seconds + part) * 60;
      part = 0;
    } else {
      part = part * 10 + (c - '0');
    }
  }
  return seconds + part;
}

// What is left of a bar's description once numbers are gone: it stays the same from line to line.
std::string WithoutNumbers(std::string_view text) {
  std::string words;
  for (const char c : text)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') words += c;
  return words.substr(0, 64);
}

// "Epoch 1: 50%|##  | " -> "Epoch 1:"
std::string_view DescriptionOf(std::string_view before_count) {
  const std::size_t percent = before_count.rfind("%|");
  if (percent == std::string_view::npos) return before_count;
  std::string_view text = before_count.substr(0, percent);
  while (!text.empty() && text.back() >= '0' && text.back() <= '9') text.remove_suffix(1);
  return text;
}

// Cursor movements and colours say nothing here.
std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
    }
  }
  return plain;
}

bool IsStepUnit(std::string_view unit) {
  static constexpr std::string_view kUnits[] = {"it",      "step",   "steps",  "batch",
                                                "batches", "iter",   "iters",  "ba",
                                                "epoch",   "update", "updates"};
  return std::ranges::find(kUnits, unit) != std::end(kUnits);
}

std::optional<double> Positive(std::optional<double> value) {
  return value && *value > 0 && std::isfinite(*value) ? value : std::nullopt;
}

// Where it counts something: neither negative nor so large that sums leave 64 bits.
std::optional<std::int64_t> Count(std::optional<std::int64_t> value) {
  return value && *value >= 0 && *value <= kMostSteps ? value : std::nullopt;
}

// Steps of `rounds` rounds and of one more that has come to `step`.
std::int64_t StepsOf(std::int64_t rounds, std::int64_t each, std::int64_t step) {
  if (each > 0 && rounds > kMostSteps / each) return kMostSteps;
  return std::min(rounds * each + step, kMostSteps);
}

std::optional<std::int64_t> JsonInt(const nlohmann::json& json,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = json.find(name);
    if (found == json.end()) continue;
    if (found->is_number())
      if (const auto number = WholeIn(std::trunc(found->get<double>()), 0, kMostSteps))
        return number;
    if (found->is_string())
      if (const auto number = Count(ParseInt(found->get<std::string>()))) return number;
  }
  return std::nullopt;
}

std::optional<double> JsonSeconds(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  return seconds >= 0 && seconds <= kLongestSeconds ? std::optional(seconds) : std::nullopt;
}

template <class OnLine>
void SplitLines(std::string& rest, std::string_view bytes, std::string_view ends, OnLine on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of(ends);
    const std::string_view part = bytes.substr(0, end);
    if (rest.size() < kMaxLine) rest.append(part.substr(0, kMaxLine - rest.size()));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (!rest.empty()) on_line(std::string_view(rest));
    rest.clear();
  }
}

}  // namespace

// One line's or bar's word about where the run is.
struct ProgressParser::Reading {
  std::string name;  // description without numbers
  std::int64_t step = 0;
  std::int64_t total = 0;  // 0 = none
  std::int64_t epoch = 0;  // 1-based; 0 = none
  std::int64_t epochs = 0;
  bool counts_epochs = false;
  bool open_epochs = false;  // the epoch has a number, and nobody said of how many
  std::optional<double> seconds_per_step;
  std::optional<double> elapsed_s;
  std::optional<double> remaining_s;
};

void ProgressParser::Track::See(const Progress& progress, BootTime now) {
  said = progress;
  if (!progress.step) return;
  if (!seen.empty() && seen.back().second > *progress.step) seen.clear();  // it started again
  if (!seen.empty() && seen.back().second == *progress.step) return;
  if (!seen.empty() && seen.back().first == now)
    seen.back().second = *progress.step;  // one sample brings many lines
  else
    seen.emplace_back(now, *progress.step);
  if (seen.size() > kMaxSeen) seen.pop_front();
}

Progress ProgressParser::Track::Now() const {
  Progress now = said;
  if (!now.seconds_per_step && seen.size() >= 2) {
    const auto [first_at, first] = seen.front();
    const auto [last_at, last] = seen.back();
    now.seconds_per_step = Positive(static_cast<double>((last_at - first_at).count()) / 1000.0 /
                                    static_cast<double>(last - first));
  }
  if (!now.eta_s && now.seconds_per_step && now.step && now.steps)
    now.eta_s = *now.seconds_per_step *
                static_cast<double>(std::max<std::int64_t>(*now.steps - *now.step, 0));
  return now;
}

ProgressParser::ProgressParser() {
  static const ProgressPatterns kPatterns;  // a millisecond of a processor for each rank otherwise
  patterns_ = &kPatterns;
}
ProgressParser::ProgressParser(ProgressParser&&) noexcept = default;
ProgressParser& ProgressParser::operator=(ProgressParser&&) noexcept = default;
ProgressParser::~ProgressParser() = default;

Result<ProgressParser> ProgressParser::Create(const std::string& pattern) {
  ProgressParser parser;
  if (pattern.empty()) return parser;
  LAUNCH_ASSIGN_OR_RETURN(parser.pattern_, ParseProgressPattern(pattern));
  return parser;
}

void ProgressParser::SkipLog() { log_rest_.clear(); }

void ProgressParser::FeedLog(std::string_view bytes, BootTime now) {
  SplitLines(log_rest_, bytes, "\r\n", [&](std::string_view line) { ReadSegment(line, now); });
  // A bar stands unfinished until its next carriage return: what it shows is shown already.
  if (!log_rest_.empty() && log_rest_.back() == ']') {
    ReadSegment(log_rest_, now);
    log_rest_.clear();
  }
}

void ProgressParser::FeedFile(std::string_view bytes, BootTime now) {
  SplitLines(file_rest_, bytes, "\n", [&](std::string_view line) {
    const auto json = nlohmann::json::parse(WithoutNan(line), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;
    const auto allocated = JsonInt(json, {"allocated_bytes"});
    const auto reserved = JsonInt(json, {"reserved_bytes"});
    if (allocated && reserved)
      memory_ = {static_cast<std::uint64_t>(*allocated), static_cast<std::uint64_t>(*reserved),
                 now};
    const auto step = JsonInt(json, {"step", "global_step"});
    if (!step) return;
    const auto steps = JsonInt(json, {"steps", "total_steps", "max_steps", "total"});
    from_file_.See({.step = step,
                    .steps = steps ? steps : from_file_.said.steps,  // many say it once
                    .seconds_per_step = Positive(JsonSeconds(json, "seconds_per_step")),
                    .eta_s = JsonSeconds(json, "eta_s")},
                   now);
  });
}

void ProgressParser::ReadSegment(std::string_view raw, BootTime now) {
  const std::string segment = WithoutEscapes(raw);
  if (pattern_.regex) {
    const int groups = pattern_.regex->NumberOfCapturingGroups() + 1;
    std::vector<re2::StringPiece> found(static_cast<std::size_t>(groups));
    if (pattern_.regex->Match(segment, 0, segment.size(), re2::RE2::UNANCHORED, found.data(),
                              groups)) {
      Progress progress;
      const auto number = [&](int group) -> std::optional<std::int64_t> {
        if (group >= groups) return std::nullopt;
        const re2::StringPiece text = found[static_cast<std::size_t>(group)];
        return Count(ParseInt(std::string_view(text.data(), text.size())));
      };
      progress.step = number(pattern_.step);
      progress.steps = number(pattern_.steps);
      if (!progress.steps) progress.steps = from_pattern_.said.steps;
      if (progress.step) from_pattern_.See(progress, now);
    }
  }
  if (ReadBars(segment, now) == 0) (void)ReadLine(segment, now);
}

// Several ranks may share one pipe, so one line may hold several bars.
std::size_t ProgressParser::ReadBars(std::string_view segment, BootTime now) {
  std::size_t count = 0;
  re2::StringPiece rest(segment.data(), segment.size());
  re2::StringPiece n, total, elapsed, remaining, rate, unit, per;
  const char* description_begin = segment.data();
  while (re2::RE2::FindAndConsume(&rest, patterns_->bar, &n, &total, &elapsed, &remaining, &rate,
                                  &unit, &per)) {
    ++count;
    const std::string_view description =
        DescriptionOf({description_begin, static_cast<std::size_t>(n.data() - description_begin)});
    description_begin = rest.data();
    const std::string_view unit_text(unit.data(), unit.size());
    const std::string_view per_text(per.data(), per.size());
    const bool slow = unit_text == "s";  // "270.00s/it", else "3.5it/s"
    const std::string_view what = slow ? per_text : unit_text;
    if (!IsStepUnit(what)) continue;
    const re2::StringPiece text(description.data(), description.size());
    if (re2::RE2::PartialMatch(text, patterns_->aside)) continue;
    Reading reading{.name = "bar " + WithoutNumbers(description),
                    .step = ToInt(n),
                    .total = ToInt(total),
                    .elapsed_s = ClockSeconds(elapsed),
                    .remaining_s = ClockSeconds(remaining)};
    re2::StringPiece epoch, epochs;
    if (re2::RE2::PartialMatch(text, patterns_->bar_epoch, &epoch, &epochs)) {
      reading.epoch = ToInt(epoch);
      reading.epochs = ToInt(epochs);
    } else {
      reading.open_epochs = re2::RE2::PartialMatch(text, patterns_->numbered_epoch);
    }
    reading.counts_epochs =
        what == "epoch" || (re2::RE2::PartialMatch(text, patterns_->epoch_word) &&
                            !re2::RE2::PartialMatch(text, patterns_->numbered_epoch));
    const auto number = ParseDouble(std::string_view(rate.data(), rate.size()));
    if (number && *number > 0) reading.seconds_per_step = slow ? *number : 1.0 / *number;
    See(reading, now);
  }
  return count;
}

bool ProgressParser::ReadLine(std::string_view segment, BootTime now) {
  const re2::StringPiece text(segment.data(), segment.size());
  re2::StringPiece step, total, epoch, epochs;
  Reading reading;
  const bool dictionary = segment.find('{') != std::string_view::npos &&
                          segment.find("eval_") == std::string_view::npos &&
                          re2::RE2::PartialMatch(text, patterns_->dict_step, &step);
  if (dictionary) {
    reading.name = "dict";
    if (re2::RE2::PartialMatch(text, patterns_->dict_total, &total)) reading.total = ToInt(total);
  } else if (re2::RE2::PartialMatch(text, patterns_->epoch_line, &epoch, &epochs, &step, &total)) {
    reading.name = "epoch line";
    reading.epoch = ToInt(epoch);
    reading.epochs = ToInt(epochs);
    reading.total = ToInt(total);
  } else if (re2::RE2::PartialMatch(text, patterns_->step_of, &step, &total) ||
             re2::RE2::PartialMatch(text, patterns_->loss_line, &step, &total)) {
    reading.name = "step line";
    reading.total = ToInt(total);
  } else if (re2::RE2::PartialMatch(text, patterns_->step_only, &step)) {
    reading.name = "step";
  } else {
    return false;
  }
  re2::StringPiece before(segment.data(), static_cast<std::size_t>(step.data() - segment.data()));
  (void)re2::RE2::Consume(&before, patterns_->brackets);
  if (re2::RE2::PartialMatch(before, patterns_->aside)) return false;
  reading.step = ToInt(step);
  re2::StringPiece a, a_unit, b_unit, b, c, c_unit;
  if (re2::RE2::PartialMatch(text, patterns_->step_time, &a, &a_unit, &b_unit, &b, &c, &c_unit)) {
    const re2::StringPiece value = !a.empty() ? a : !b.empty() ? b : c;
    const re2::StringPiece unit = !a.empty() ? a_unit : !b.empty() ? b_unit : c_unit;
    const auto number = ParseDouble(std::string_view(value.data(), value.size()));
    if (number) reading.seconds_per_step = Positive(*number * (unit == "ms" ? 0.001 : 1.0));
  }
  See(reading, now);
  return true;
}

void ProgressParser::See(const Reading& reading, BootTime now) {
  if (reading.total != 0 && reading.step > reading.total) return;
  const auto key = std::pair(reading.name, reading.total);
  if (!bars_.contains(key) && bars_.size() >= kMaxBars) return;
  Bar& bar = bars_[key];
  ++seen_;
  if (bar.first_seen == 0) bar.first_seen = seen_;
  bar.last_seen = seen_;
  bar.total = reading.total;
  bar.counts_epochs = reading.counts_epochs;
  // "Epoch 0/9": ten epochs in Lightning's words, nine in others'.
  if (reading.open_epochs || (reading.epoch == 0 && reading.epochs > 0)) bar.open_epochs = true;
  // Glued output of several ranks may step back a little; starting again is something else.
  const std::int64_t slack = std::max<std::int64_t>(2, reading.total / 10);
  const bool began_again =
      reading.step + slack < bar.last || (reading.step < bar.last && bar.last == bar.total);
  if (reading.epoch > bar.epoch && bar.epoch != 0 && !began_again && reading.step > bar.last)
    bar.epoch_restarts = false;
  if (began_again) ++bar.rounds;
  if (!began_again && reading.step < bar.last && reading.epoch == bar.epoch) return;
  bar.last = reading.step;
  bar.epoch = reading.epoch;
  if (reading.elapsed_s && reading.remaining_s)
    bar.duration_s = *reading.elapsed_s + *reading.remaining_s;

  Progress progress{.step = reading.step, .seconds_per_step = reading.seconds_per_step};
  const bool many_epochs =
      !bar.open_epochs && reading.epoch > 0 && reading.epochs > 0 && bar.epoch_restarts;
  if (many_epochs) {
    progress.step = StepsOf(reading.epoch - 1, reading.total, reading.step);
    progress.steps = StepsOf(reading.epochs, reading.total, 0);
  } else if (bar.rounds > 0) {
    // Of how many rounds, nobody said
    progress.step = StepsOf(bar.rounds, reading.total, reading.step);
  } else if (reading.total > 0 && !bar.open_epochs) {
    progress.steps = reading.total;
    progress.eta_s = reading.remaining_s;
  }
  bar.track.See(progress, now);
}

// Bars that run inside another one ended while an older bar went on.
const ProgressParser::Bar* ProgressParser::Chosen() const {
  const auto is_inner = [this](const Bar& bar) {
    return bar.total != 0 && bar.last == bar.total &&
           std::ranges::any_of(bars_, [&bar](const auto& other) {
             return other.second.first_seen < bar.first_seen &&
                    other.second.last_seen > bar.last_seen && other.second.total != 0;
           });
  };
  const auto only_grows = [](const Bar& bar) { return bar.rounds == 0 || bar.epoch != 0; };
  const auto total_of = [](const Bar& bar) { return bar.track.said.steps.value_or(bar.total); };
  const Bar* best = nullptr;
  for (const auto& [key, bar] : bars_) {
    if (bar.total == 0 || bar.counts_epochs || is_inner(bar) || !only_grows(bar)) continue;
    if (best == nullptr) {
      best = &bar;
      continue;
    }
    const Bar& first = best->first_seen < bar.first_seen ? *best : bar;
    const Bar& second = &first == best ? bar : *best;
    // What was counted to its end before (reading files, say) yields to a longer run after it.
    const bool first_is_over = first.last == first.total && second.first_seen > first.last_seen &&
                               second.duration_s > first.duration_s;
    if (first_is_over)
      best = &second;
    else if (total_of(bar) > total_of(*best))
      best = &bar;
  }
  if (best != nullptr) return best;
  for (const auto& [key, bar] : bars_)  // without a total, or starting again each epoch
    if (!bar.counts_epochs && (best == nullptr || bar.last_seen > best->last_seen)) best = &bar;
  return best;
}

Progress ProgressParser::Now() const {
  if (from_file_.said.step) return from_file_.Now();
  if (from_pattern_.said.step) return from_pattern_.Now();
  const Bar* bar = Chosen();
  if (bar == nullptr) return {};
  Progress progress = bar->track.Now();
  // A bar of epochs around a bar of steps: together they say all.
  if (!progress.steps && bar->total > 0)
    for (const auto& [key, outer] : bars_)
      if (outer.counts_epochs && outer.total > 0 && outer.rounds == 0) {
        const bool inside = outer.last == bar->rounds || bar->last != bar->total;
        progress.step = StepsOf(outer.last, bar->total, inside ? bar->last : 0);
        progress.steps = StepsOf(outer.total, bar->total, 0);
        progress.step = std::min(*progress.step, *progress.steps);
        progress.eta_s.reset();
        if (progress.seconds_per_step)
          progress.eta_s =
              *progress.seconds_per_step * static_cast<double>(*progress.steps - *progress.step);
      }
  return progress;
}

}  // namespace launch::agent
