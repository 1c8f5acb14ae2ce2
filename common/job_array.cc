#include "common/job_array.h"

#include <algorithm>
#include <set>

#include "common/enum_text.h"
#include "common/job.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr EnumText<DependencyKind, 6> kDependency{{{DependencyKind::kAfter, "after"},
                                                   {DependencyKind::kAfterAny, "afterany"},
                                                   {DependencyKind::kAfterOk, "afterok"},
                                                   {DependencyKind::kAfterNotOk, "afternotok"},
                                                   {DependencyKind::kAfterCorr, "aftercorr"},
                                                   {DependencyKind::kSingleton, "singleton"}}};

std::vector<std::string_view> PiecesOf(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Unexpected BadArray(std::string_view text, std::string why) {
  return Fail(ErrorCode::kInvalidArgument, "`" + std::string(text) + "` " + std::move(why),
              "1-20, 0,3,7-9, 0-20:5, and %4 behind it for at most four at once");
}

Unexpected TooMany() {
  return Fail(ErrorCode::kInvalidArgument,
              "has more than " + std::to_string(kMaxElements) + " elements",
              "submit it in parts, or let one job work on several values");
}

// "7", "7-9", "0-20:5" into `indices`.
Result<void> AddRange(std::string_view part, std::string_view whole, std::set<int>& indices) {
  const std::vector<std::string_view> stepped = PiecesOf(part, ':');
  const std::vector<std::string_view> ends = PiecesOf(stepped.front(), '-');
  const auto low = ParseInt(ends.front());
  const auto high = ends.size() == 2 ? ParseInt(ends.back()) : low;
  const auto step = stepped.size() == 2 ? ParseInt(stepped.back()) : std::optional<std::int64_t>(1);
  if (!low || !high || !step || ends.size() > 2 || stepped.size() > 2)
    return BadArray(whole, "is not a list of indices");
  if (*low < 0 || *high > kMaxIndex || *step < 1)
    return BadArray(whole, "has an index outside 0 to " + std::to_string(kMaxIndex));
  if (*high < *low) return BadArray(whole, "counts down in `" + std::string(part) + "`");
  if ((*high - *low) / *step >= kMaxElements) return TooMany();
  for (std::int64_t index = *low; index <= *high; index += *step)
    if (!indices.insert(static_cast<int>(index)).second)
      return BadArray(whole, "names " + std::to_string(index) + " twice");
  return {};
}

}  // namespace

LAUNCH_ENUM_TEXT(DependencyKind, ParseDependencyKind, kDependency)

std::string ToString(const Dependency& v) {
  std::string text(ToString(v.kind));
  if (v.kind != DependencyKind::kSingleton) text += ":" + std::to_string(v.job.value);
  return text;
}

Result<ArraySpec> ParseArray(std::string_view text) {
  ArraySpec array;
  std::string_view list = text;
  if (const std::size_t percent = text.find('%'); percent != std::string_view::npos) {
    const auto cap = ParseInt(text.substr(percent + 1));
    if (!cap || *cap < 1 || *cap > kMaxElements)
      return BadArray(text, "has no number from 1 behind %");
    array.at_once = static_cast<int>(*cap);
    list = text.substr(0, percent);
  }
  std::set<int> indices;
  for (const std::string_view part : PiecesOf(list, ',')) {
    LAUNCH_RETURN_IF_ERROR(AddRange(part, text, indices));
    if (indices.size() > static_cast<std::size_t>(kMaxElements)) return TooMany();
  }
  array.indices.assign(indices.begin(), indices.end());
  return array;
}

Result<ArraySpec> MakeSweep(std::vector<SweepAxis> axes) {
  ArraySpec array;
  std::size_t count = axes.empty() ? 0 : 1;
  for (const SweepAxis& axis : axes) {
    count *= axis.values.size();
    if (count > static_cast<std::size_t>(kMaxElements)) return TooMany();
  }
  if (count == 0)
    return Fail(ErrorCode::kInvalidArgument, "has no values",
                "each parameter needs a list: {lr: [1e-5, 3e-5], seed: [1, 2]}");
  for (std::size_t index = 0; index < count; ++index)
    array.indices.push_back(static_cast<int>(index));
  array.sweep = std::move(axes);
  return array;
}

Result<std::vector<Dependency>> ParseDependencies(std::string_view text) {
  const auto bad = [&](std::string why) {
    return Fail(ErrorCode::kInvalidArgument, "`" + std::string(text) + "` " + std::move(why),
                "afterok:17, afterany:17:18, afternotok:17, after:17, aftercorr:17 or singleton");
  };
  if (text.find('?') != std::string_view::npos)
    return bad("asks for one of several jobs, which launch cannot wait for");
  std::vector<Dependency> all;
  for (const std::string_view part : PiecesOf(text, ',')) {
    std::vector<std::string_view> words = PiecesOf(part, ':');
    DependencyKind kind = DependencyKind::kAfterOk;
    if (!ParseInt(words.front())) {
      const auto parsed = ParseDependencyKind(words.front());
      if (!parsed) return bad("has the unknown word `" + std::string(words.front()) + "`");
      kind = *parsed;
      words.erase(words.begin());
    }
    if (kind == DependencyKind::kSingleton) {
      if (!words.empty()) return bad("names a job behind singleton");
      all.push_back({kind, JobId{}});
      continue;
    }
    if (words.empty()) return bad("names no job");
    for (const std::string_view word : words) {
      const auto job = ParseInt(word);
      const std::size_t element = word.find('_');
      if (element != std::string_view::npos && ParseInt(word.substr(0, element)) &&
          ParseInt(word.substr(element + 1)))
        return Fail(
            ErrorCode::kInvalidArgument, "`" + std::string(text) + "` names an element of an array",
            "write the element's own number, which `launch status " + std::string(word) +
                "` shows, or " + std::string(word.substr(0, element)) + " for the whole array");
      if (!job || *job < 1)
        return bad("needs the number of a job, found `" + std::string(word) + "`");
      all.push_back({kind, JobId{static_cast<std::uint64_t>(*job)}});
    }
  }
  if (all.size() > static_cast<std::size_t>(kMaxDependencies)) return bad("names too many jobs");
  return all;
}

std::vector<ArrayElement> ElementsOf(const ArraySpec& array) {
  std::vector<ArrayElement> elements;
  for (std::size_t place = 0; place < array.indices.size(); ++place) {
    ArrayElement element{JobId{}, array.indices[place], array.at_once, {}};
    std::size_t rest = place;
    for (auto axis = array.sweep.rbegin(); axis != array.sweep.rend(); ++axis) {
      element.values[axis->name] = axis->values[rest % axis->values.size()];
      rest /= axis->values.size();
    }
    elements.push_back(std::move(element));
  }
  return elements;
}

JobSpec ElementSpec(JobSpec whole, ArrayElement element) {
  whole.name += "_" + std::to_string(element.index);
  whole.array.reset();
  whole.element = std::move(element);
  return whole;
}

JobSpec FirstElement(JobSpec whole) {
  if (!whole.array || whole.array->indices.empty()) return whole;
  ArrayElement first = ElementsOf(*whole.array).front();
  return ElementSpec(std::move(whole), std::move(first));
}

}  // namespace launch
