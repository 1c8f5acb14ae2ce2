// The program that the nodes of a job run against each other (network_test.py), and its answer.
#pragma once

#include <string_view>

#include "common/launch.h"

namespace launch {

// For `python -c`, with: address and port of the node at place 0 (the two ports behind it are
// used), our place, how many nodes, a word that names the test.
extern const std::string_view kNetworkTest;

// Facts of the program's output; other text in it is ignored. Without them: not ok, and `why` are
// the output's last characters.
NetworkFacts ReadNetworkAnswer(std::string_view output);

}  // namespace launch
