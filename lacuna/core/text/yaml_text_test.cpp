#include "lacuna/core/text/yaml_text.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(YamlText, OneDocumentIsRead) {
  EXPECT_EQ(load_yaml("a: 1\nb: [2, 3]\n", "f")["b"][1].as<int>(), 3);
  EXPECT_EQ(load_yaml("---\na: 1\n...\n", "f")["a"].as<int>(), 1);
  EXPECT_TRUE(load_yaml("", "f").IsNull());
  EXPECT_TRUE(load_yaml("# nothing\n", "f").IsNull());
  EXPECT_EQ(load_yaml("a: 'x --- y'\n", "f")["a"].as<std::string>(), "x --- y");
}

TEST(YamlText, ASecondDocumentIsNamedWithItsLine) {
  EXPECT_ERROR(load_yaml("a: 1\n---\na: 2\n", "f.yaml"),
               "f.yaml: line 2: a second document begins");
  EXPECT_ERROR(load_yaml("a: 1\n...\n---\n", "f.yaml"), "a second document begins");
}

TEST(YamlText, NestingIsBounded) {
  const std::string open = repeated("[", kYamlDepth), close = repeated("]", kYamlDepth);
  EXPECT_NO_THROW(load_yaml(open + close, "f"));
  EXPECT_ERROR(load_yaml("[" + open + close + "]", "f"), "nested deeper than 20");
  for (const char* level : {"[", "{a: ", "- ", "? "})
    EXPECT_ERROR(load_yaml(repeated(level, 100'000), "f"), "f: line 1: ");
  std::string indented;
  for (int i = 0; i < 300; ++i) indented += std::string(size_t(i), ' ') + "a:\n";
  EXPECT_ERROR(load_yaml(indented, "f"), "f: line 21: lists and maps are nested deeper");
}

TEST(YamlText, AliasesAreRefused) {
  EXPECT_ERROR(load_yaml("a: &x [1]\nb: [*x, *x]\n", "f"), "f: line 2: a word that begins with *");
  EXPECT_EQ(load_yaml("a: '*x'\n", "f")["a"].as<std::string>(), "*x");
}

TEST(YamlText, SizeIsBounded) {
  EXPECT_NO_THROW(load_yaml(std::string(kYamlBytes, '\n'), "f"));
  EXPECT_ERROR(load_yaml(std::string(kYamlBytes + 1, '\n'), "f.yaml"),
               "f.yaml has 1000001 bytes, and a config at most 1000000");
}

TEST(YamlText, WhatIsNotYamlIsNamedWithItsLine) {
  for (const char* text : {"a: 1\nb: [\n", "a: 1\nb: }\n", "a: 1\n\tb: 2\n", "a: 1\nb: *\n"})
    EXPECT_ERROR(load_yaml(text, "f.yaml"), "f.yaml: line ");
}

}  // namespace
}  // namespace lacuna
