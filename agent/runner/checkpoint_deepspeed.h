// The checkpoints of DeepSpeed: a directory for each tag, and beside them the text `latest`,
// written last, that names the one to load. Others write a text of that name too.
#pragma once

#include <filesystem>
#include <string>

#include "agent/runner/checkpoint_search.h"

namespace launch::agent {

// What `latest` names; empty = nothing.
std::string TagOf(const std::filesystem::path& directory);

// Whether a text `latest` is there that may name a tag: a link of that name, or a text that names a
// file, is somebody else's. Enough in the directory of a trainer, which leaves it to DeepSpeed.
bool NamesTag(const std::filesystem::path& directory);

// Whether a directory is one of a tag.
bool HoldsDeepSpeedStates(CheckpointSearch& search, const std::filesystem::path& directory);

enum class Latest {
  kNone,
  kOther,    // names a directory that DeepSpeed did not write
  kTag,      // names one that holds DeepSpeed's states
  kLostTag,  // what it names is not there, or empty, and other files there are DeepSpeed's
  kLost,     // what it names is not there, or empty
};
Latest LatestOf(CheckpointSearch& search, const std::filesystem::path& directory);

// Empty = complete; else what is wrong with the tag that `latest` names. `world`: ranks of the job.
std::string WhyDeepSpeedIncomplete(CheckpointSearch& search, const std::filesystem::path& directory,
                                   int world);

}  // namespace launch::agent
