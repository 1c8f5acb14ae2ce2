#include "cli/tar_file.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(TarFile, ComesBackWhole) {
  const TarEntries entries = {{"README", "hello\n"},
                              {"a/empty", ""},
                              {"a/b", std::string(512, 'x')},
                              {"a/c", std::string("\0\xff\n", 3) + std::string(513, 'y')}};
  const std::string tar = MakeTar(entries);
  EXPECT_EQ(tar.size() % 512, 0u);
  EXPECT_TRUE(LooksLikeTar(tar));
  const auto read = ReadTar(tar);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, entries);
}

TEST(TarFile, DamageIsNamed) {
  std::string tar = MakeTar({{"README", "hello\n"}, {"log", std::string(2000, 'x')}});
  EXPECT_FALSE(ReadTar(std::string_view(tar).substr(0, 1800)).has_value());
  tar[3] = '!';
  const auto read = ReadTar(tar);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("damaged"), std::string::npos);
  EXPECT_FALSE(LooksLikeTar("CUDA out of memory"));
}

}  // namespace
}  // namespace launch
