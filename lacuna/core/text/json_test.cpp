#include "lacuna/core/text/json.h"

#include <gtest/gtest.h>

#include <string>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

std::string nested(int depth) {
  return std::string(size_t(depth), '[') + std::string(size_t(depth), ']');
}

TEST(Json, KeepsTheOrderOfMembers) {
  EXPECT_EQ(parse_json(R"({"b": 1, "a": [2, "x"]})", "f").dump(), R"({"b":1,"a":[2,"x"]})");
}

TEST(Json, AnErrorNamesTheFileAndTheByte) {
  EXPECT_ERROR(parse_json("{\"a\": ]", "a/manifest.json"),
               "a/manifest.json: not valid JSON near byte 7");
}

TEST(Json, NestingIsBounded) {
  EXPECT_NO_THROW(parse_json(nested(kJsonDepth), "f"));
  EXPECT_ERROR(parse_json(nested(kJsonDepth + 1), "f"), "nested deeper than 100");
  EXPECT_ERROR(parse_json(std::string(10'000'000, '['), "f"), "nested deeper than 100");
}

TEST(Json, ANumberBeyondAllNumbersIsAnError) {
  EXPECT_ERROR(parse_json("[1e999]", "f"), "f: it holds a number that is too large");
}

TEST(Json, BracketsInStringsDoNotCount) {
  const std::string text = "[\"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\"]";
  EXPECT_NO_THROW(parse_json(text, "f"));
}

}  // namespace
}  // namespace lacuna
