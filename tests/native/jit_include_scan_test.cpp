#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "jit/include_scan.h"
#include "jit/untrusted_scan.h"

namespace gpk::jit {
namespace {

TEST(IncludeScan, ReadsLines) {
  const auto lines = scan_includes(
      "#include <a.h>\n  # include\t\"b/c.h\" // x\n// #include <no.h>\n/* #include <no.h>\n*/"
      "#include \\\n \"d.h\"\n#include/**/\"e.h\"\nint include;\n#include MACRO\n");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].name, "a.h");
  EXPECT_FALSE(lines[0].quoted);
  EXPECT_EQ(lines[1].name, "b/c.h");
  EXPECT_TRUE(lines[1].quoted);
  EXPECT_EQ(lines[2].name, "d.h");
  EXPECT_EQ(lines[3].name, "e.h");
  EXPECT_EQ(lines[4].name, "");
  CompileRequest request{"a.cu", "#include \"h.h\"\n", {{"h.h", "#include X\n"}}, {}, {}, 90,
                         false};
  EXPECT_FALSE(include_closure(request, {}).complete);
  request.headers[0].text = "int x;\n";
  EXPECT_TRUE(include_closure(request, {}).complete);
  EXPECT_FALSE(include_closure(request, {}).needs_folder);
}

TEST(UntrustedScan, SeesEveryInclude) {
  const auto names = [](std::string_view text) {
    const UntrustedScan scan = scan_untrusted(text);
    EXPECT_EQ(scan.refused, "") << text;
    std::string out;
    for (const IncludeLine& line : scan.includes) out += line.name + (line.quoted ? "\" " : "> ");
    return out;
  };
  EXPECT_EQ(names("#include <a.h>\n # include\t\"b\"\n"), "a.h> b\" ");
  EXPECT_EQ(names("%:\\\ninclude/**/<c>"), "c> ");
  EXPECT_EQ(names("// #include <d>\n/*\n#include <e>*/ \"#include <f>\""), "d> e> f> ");
  EXPECT_EQ(names("#define A(x) #x\n#ifdef B\n#endif\n\"#\\n\" a ## b"), "");
  EXPECT_EQ(names("important; import_of(x); a.import = 3; // import this"), "");
}

TEST(UntrustedScan, RefusesWhatItCannotJudge) {
  for (const char* text : {"#include A",
                           "#include",
                           "#include \"a",
                           "#include <a\nb>",
                           "#include \"a\\b\"",
                           "#embed <a>",
                           "#import <a>",
                           "#include_next <a>",
                           "?\?=include <a>",
                           "a?\?/\nb",
                           "x\ry",
                           "x \\ \ny",
                           "#\\u0069nclude <a>",
                           "#\xc2\xa0include <a>",
                           "#incl\xc2\xadude <a>",
                           "__has_include(<a>)",
                           "__has_\\\nembed(<a>)",
                           "import <a>;",
                           "import/**/\"a\";",
                           "export import A ;",
                           "\xff\xfe#"})
    EXPECT_NE(scan_untrusted(text).refused, "") << text;
}

// Removing splices one by one would move the rest of the text for each: hours.
TEST(IncludeScan, ReadsAMillionContinuedLines) {
  std::string source = "#include \\\n";
  while (source.size() < 10'000'000) source += source.size() % 2 == 0 ? " \\\n" : "\\\r\n";
  source += "\"far.h\"\n#include <b.h>\n";
  const auto start = std::chrono::steady_clock::now();
  const auto lines = scan_includes(source);
  // Not quadratic: that would take hours, a sanitizer some ten seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].name, "far.h");
  EXPECT_EQ(lines[1].name, "b.h");
}

}  // namespace
}  // namespace gpk::jit
