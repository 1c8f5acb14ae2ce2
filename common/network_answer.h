// The program that the nodes of a job run against each other (network_test.py), and its answer.
#pragma once

#include <string>
#include <string_view>

#include "common/launch.h"

namespace launch {

// A program for `python -c`. Its arguments: address and port of the node at place 0 (the two ports
// after it are used too), our place, the number of nodes, a word that names the test.
extern const std::string_view kNetworkTest;

// The facts in the program's output; other text in it is ignored. If there are none the answer is
// not ok, and `why` holds the output's last characters.
NetworkFacts ReadNetworkAnswer(std::string_view output);

// Not ok, and why.
NetworkFacts NoAnswer(std::string why);

}  // namespace launch
