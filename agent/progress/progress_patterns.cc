#include "agent/progress/progress_patterns.h"

namespace launch::agent {

re2::RE2::Options LogPatternOptions() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(8 << 20);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // logs are bytes
  return options;
}

}  // namespace launch::agent
