// environment-doc: prints docs/environment.md, so that the page cannot differ from the code.
#include <iostream>

#include "planner/start/environment.h"

int main() {
  std::cout << launch::EnvironmentDocument();
  return std::cout.good() ? 0 : 1;
}
