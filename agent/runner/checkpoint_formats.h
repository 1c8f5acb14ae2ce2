// What makes each format of checkpoint complete; reads headers, never weights, never unpickles.
//
//   torch      *.pt *.pth *.bin     zip with end record and central directory whose sizes agree
//   lightning  *.ckpt               as torch
//   hf         checkpoint-N/        trainer_state.json of step N; weights whole, in files, FSDP's
//                                   shards or DeepSpeed's; the state that others beside it have
//   dcp        *.distcp             .metadata is there (written last), the files that it names
//                                   too, each to its end, and none of them was written since;
//                                   Lightning's meta.pt;
//                                   so in each directory where there are several
//   megatron   iter_N/mp_rank_*/    the files of every rank of the model that others have;
//                                   latest_checkpointed_iteration.txt names N or a later one
//   deepspeed  `latest`             the tag's model states and the optimizer states of every rank,
//                                   or in the model states where these say so (no ZeRO); a
//                                   `latest` that names something else is somebody else's
//   accelerate checkpoint_N/        as hf, and random_states_R.pkl of every rank, as far as older
//                                   ones tell how many there were
//   marker     any directory        the file that the user named
//
// What is in a directory tells its format; its name only where that says nothing yet. One under the
// name of an unfinished save is found, and never complete.
//
// A directory of another form, with weights in it and a number in its name, is found, and never
// complete: only the user knows which file is written last.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

struct CheckpointRules {
  std::string marker;       // checkpoint.complete_marker; empty = judged by the format
  int world = 1;            // ranks of the job: as many parts belong to what each writes a part of
  std::string format = {};  // the only one that is read; empty = each by what it holds
};

// Every checkpoint directly below `directory`, and `directory` itself where it is one (DeepSpeed,
// DCP). Where that is none, every one directly below `checkpoints` and
// `lightning_logs/version_N/checkpoints` in it. Not in any order. A missing directory holds none.
// The search ends early when `cancel` turns true, and where a directory holds more than anybody's
// checkpoints do; what it could not look at is not complete.
std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const CheckpointRules& rules,
                                             const std::atomic<bool>* cancel = nullptr);

}  // namespace launch::agent
