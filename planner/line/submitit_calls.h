// Python texts that hand their work to Slurm by submitit, found by their spelling.
#pragma once

#include <string_view>

namespace launch {

// Whether a text that imports submitit makes an executor that may submit: not one of threads, nor
// submitit's for this machine.
bool MakesSubmitter(std::string_view text);

// Whether a text that runs always comes to that executor: not in a branch, nor behind a way out,
// nor with a choice of what it runs on. `function`: what is sure to be called in it; empty: the
// text is the program itself.
bool AlwaysSubmits(std::string_view text, std::string_view function = {});

// Whether the program always comes to a call of that function.
bool AlwaysCalls(std::string_view text, std::string_view function);

}  // namespace launch
