#include "cli/import/pyxis.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/quoted.h"
#include "common/text.h"

namespace launch {
namespace {

// "docker://nvcr.io#nvidia/pytorch:24.01-py3" is enroot's way of writing it.
std::string ImageOf(std::string image) {
  constexpr std::string_view kScheme = "docker://";
  if (image.starts_with(kScheme)) image.erase(0, kScheme.size());
  std::replace(image.begin(), image.end(), '#', '/');
  return image;
}

// "SOURCE[:TARGET[:FLAG+FLAG]]" as SOURCE:TARGET[:ro]; absent where the target is no path.
std::optional<std::string> MountOf(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::string source(text.substr(0, first));
  std::string target = source;
  std::string_view flags;
  if (first != std::string_view::npos) {
    const std::string_view rest = text.substr(first + 1);
    const std::size_t second = rest.find(':');
    target = rest.substr(0, second);
    if (second != std::string_view::npos) flags = rest.substr(second + 1);
  }
  if (source.empty() || !target.starts_with('/')) return std::nullopt;
  const bool read_only = ("+" + std::string(flags) + "+").find("+ro+") != std::string::npos;
  return source + ":" + target + (read_only ? ":ro" : "");
}

}  // namespace

void TakePyxis(const PyxisOptions& options, JobFileDraft& draft) {
  std::string image;
  std::vector<std::string> mounts;
  for (const auto& [name, value] : options) {
    const std::string shown = value.empty() ? name : name + " " + value;
    if (value.find('$') != std::string::npos) {
      draft.Note(shown + " is dropped: its value is not known here");
    } else if (name == "container-image" && !value.empty()) {
      if (!image.empty() && image != ImageOf(value))
        draft.Note(shown + " is dropped: a job has one image");
      else
        image = ImageOf(value);
    } else if (name == "container-mounts" && !value.empty()) {
      for (const std::string_view one : Split(value, ',')) {
        const auto mount = MountOf(one);
        if (!mount)
          draft.Note("container-mounts " + std::string(one) + " is dropped: write mounts");
        else if (std::find(mounts.begin(), mounts.end(), *mount) == mounts.end())
          mounts.push_back(*mount);
      }
    } else if (name == "container-workdir") {
      draft.Note(shown + " is dropped: run begins in workdir, which has one path inside and out");
    } else {
      draft.Note(shown + " is dropped: this version has nothing like it");
    }
  }
  if (!image.empty() && draft.Has("conda")) {
    draft.Note("container-image " + image + " is dropped: conda is set; write image in its place");
    image.clear();
  } else if (!image.empty()) {
    draft.Set("image", image);
    draft.Note("container-image became image: all of run is inside");
  }
  if (mounts.empty()) return;
  if (image.empty()) {
    draft.Note("container-mounts is dropped: mounts needs an image");
    return;
  }
  std::string list;
  for (const std::string& mount : mounts) list += (list.empty() ? "" : ", ") + Quoted(mount);
  draft.SetRaw("mounts", "[" + list + "]");
}

}  // namespace launch
