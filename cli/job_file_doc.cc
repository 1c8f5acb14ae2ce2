// job-file-doc FILE: writes the table of fields into the document.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cli/job_file_table.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: job-file-doc docs/job-file.md\n");
    return 2;
  }
  std::ostringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  const auto fresh = launch::WithJobFileTable(text.str());
  if (!fresh) {
    std::fprintf(stderr, "job-file-doc: %s\n", launch::FormatError(fresh.error()).c_str());
    return 2;
  }
  std::ofstream(argv[1]) << *fresh;
  return 0;
}
