// NVIDIA's Xid numbers: what each says about the GPU and which label follows.
#pragma once

#include <string_view>

namespace launch {

struct XidMeaning {
  std::string_view label;  // empty: says nothing about the cause (45, and those NVIDIA ignores)
  std::string_view says;   // what the code is, without its number
};

// A number outside the table is an engine fault (restart the program) in the ranges where NVIDIA
// lists engines, else a GPU fault.
XidMeaning MeaningOfXid(int code);

}  // namespace launch
