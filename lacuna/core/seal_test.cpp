#include "lacuna/core/seal.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

const Json kExample = {
    {"format", "lacuna.example"}, {"list", {1, 2.5, "ä"}}, {"inner", {{"a", 1}}}};
const std::string kYamlExample = "a: 1\nb: [x, y]  # a comment\n";

TEST(Seal, IsTheLastMemberAndTheRestIsTheObject) {
  const std::string text = sealed_json(kExample);
  EXPECT_EQ(seal_of_json(text), Seal::intact);
  Json json = Json::parse(text);
  EXPECT_EQ(json.back().get<std::string>().substr(0, 5), "xxh3:");
  json.erase("checksum");
  EXPECT_EQ(json, kExample);
  EXPECT_EQ(sealed_json(Json::parse(text)), text);  // the old seal is replaced, not sealed in
  const std::string line = sealed_json_line(kExample);
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_EQ(seal_of_json_line(line), Seal::intact);
}

// The checksum's definition, by hand: of all bytes before the member; in YAML behind the line.
TEST(Seal, IsTheHashOfTheOtherBytes) {
  const std::string text = sealed_json({{"a", 1}});
  EXPECT_EQ(text,
            "{\n  \"a\": 1,\n  \"checksum\": \"xxh3:" + hex(hash64("{\n  \"a\": 1")) + "\"\n}\n");
  EXPECT_EQ(sealed_yaml("a: 1\n"), "# checksum xxh3:" + hex(hash64("a: 1\n")) + "\na: 1\n");
}

// Every bit of every byte: no flip passes as intact, or as a file that never had a seal.
TEST(Seal, EveryFlippedBitBreaksIt) {
  const struct {
    std::string text;
    Seal (*seal_of)(std::string_view);
  } cases[] = {{sealed_json(kExample), seal_of_json},
               {sealed_json_line(kExample), seal_of_json_line},
               {sealed_yaml(kYamlExample), seal_of_yaml}};
  for (const auto& [text, seal_of] : cases) {
    ASSERT_EQ(seal_of(text), Seal::intact);
    for (size_t i = 0; i < text.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = text;
        damaged[i] = char(damaged[i] ^ (1 << bit));
        ASSERT_EQ(seal_of(damaged), Seal::broken) << "byte " << i << " of " << text;
      }
  }
}

// Cut short, JSON is no JSON any more. YAML may be: its seal stands in front and tells.
TEST(Seal, YamlThatIsCutShortIsBroken) {
  const std::string text = sealed_yaml(kYamlExample);
  for (size_t size = 1; size < text.size(); ++size)
    ASSERT_EQ(seal_of_yaml(text.substr(0, size)), Seal::broken) << size;
}

TEST(Seal, AnOlderFileHasNone) {
  EXPECT_EQ(seal_of_json(kExample.dump(2) + "\n"), Seal::none);
  EXPECT_EQ(seal_of_json_line(kExample.dump()), Seal::none);
  EXPECT_EQ(seal_of_yaml(kYamlExample), Seal::none);
  EXPECT_EQ(seal_of_json("{}"), Seal::none);
  EXPECT_EQ(seal_of_json(""), Seal::none);
}

TEST(Seal, TextLaidOutAnewOrAddedToIsBroken) {
  EXPECT_EQ(seal_of_json(Json::parse(sealed_json(kExample)).dump()), Seal::broken);
  EXPECT_EQ(seal_of_yaml(sealed_yaml(kYamlExample) + "c: 2\n"), Seal::broken);
  EXPECT_EQ(seal_of_yaml("c: 2\n" + sealed_yaml(kYamlExample)), Seal::broken);
}

TEST(Seal, FilesAreCheckedWhenRead) {
  const TemporaryDirectory directory;
  const fs::path path = directory / "f.json";
  write_sealed_json(path, kExample);
  EXPECT_TRUE(read_sealed_json(path).is_checked);
  EXPECT_EQ(read_sealed_json(path).json, kExample);
  std::string text = read_text(path);
  text[text.find("2.5")] = '3';
  write_file(path, text);
  EXPECT_ERROR(read_sealed_json(path), "f.json: its bytes have changed");
  write_file(path, kExample.dump(2));
  EXPECT_FALSE(read_sealed_json(path).is_checked);
  write_file(path, sealed_yaml(kYamlExample) + " ");
  EXPECT_ERROR(read_sealed_yaml(path), "f.json is damaged: its bytes have changed");
  write_file(path, sealed_yaml(kYamlExample));
  EXPECT_EQ(read_sealed_yaml(path), kYamlExample);
  write_file(path, kYamlExample);
  EXPECT_EQ(read_sealed_yaml(path), kYamlExample);
}

}  // namespace
}  // namespace lacuna
