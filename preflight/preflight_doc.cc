// preflight-doc: prints docs/preflight.md, so that the page cannot differ from the code.
#include <iostream>

#include "preflight/codes.h"

int main() {
  std::cout << launch::PreflightDocument();
  return std::cout.good() ? 0 : 1;
}
