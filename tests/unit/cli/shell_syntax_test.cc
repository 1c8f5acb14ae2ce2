#include "cli/shell_syntax.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

Error Refused(const std::string& text, const std::string& source = "") {
  const Result<void> checked = CheckShellSyntax({"run", text, "job.yaml", source});
  return checked ? Error{} : checked.error();
}

TEST(ShellSyntax, NamesTheLineOfTheFile) {
  const Error error = Refused("echo hi\nfi\n", "name: a\nrun: |\n  echo hi\n  fi\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(FormatError(error).starts_with("job.yaml:4: run: bash: syntax error near "))
      << FormatError(error);
  EXPECT_EQ(error.hint, "on that line: fi");
  EXPECT_TRUE(FormatError(Refused("a\nfi", "run: >\n  a\n\n  fi\n")).starts_with("job.yaml: run: "))
      << "folded lines stand elsewhere";
}

TEST(ShellSyntax, SaysWhatAnEarlyEndMeans) {
  const std::string source = "run: |\n  if true; then\n  echo hi\nretry: 2\n";
  const Error error = Refused("if true; then\necho hi\n", source);
  EXPECT_NE(error.message.find("end of file"), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("not closed"), std::string::npos) << error.hint;
  EXPECT_EQ(error.where->line, 3);
  EXPECT_NE(Refused("if true; then\ncat <<E\nx\n").message.find("syntax error"), std::string::npos);
  EXPECT_NE(Refused("echo \"a").hint.find("not closed"), std::string::npos);
}

TEST(ShellSyntax, TakesWhatBashReads) {
  for (const char* text :
       {"", "python train.py --lr 1e-3", "shopt -s extglob\nls !(a)", "cat <<E\nx\nE\n",
        "f() { echo $1; }; f x", "cat <<E\nnot closed", "step+() { echo; }; step+",
        "python t.py\nexit\nnotes (see mail)\n", "exec python t.py\n) rubbish\n"})
    EXPECT_TRUE(CheckShellSyntax({"run", text, "job.yaml", ""})) << text;
}

}  // namespace
}  // namespace launch
