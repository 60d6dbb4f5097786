#include "lacuna/run/predict/prediction_shard.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(PredictionShard, ANoteSaysItAll) {
  const PredictionShard shard = {
      .shard = {1, 3}, .of = "00c0ffee00c0ffee", .rows = 260, .samples = 780};
  const std::string note = shard_note(shard);
  EXPECT_EQ(note,
            "# lacuna shard {\"shard\":\"2/3\",\"of\":\"00c0ffee00c0ffee\",\"rows\":260,"
            "\"samples\":780}");
  PredictionShard best = shard;
  best.top = 5;
  best.lowest = true;
  best.label = 1;
  for (const PredictionShard& one : {shard, best}) {
    const PredictionShard read = read_shard_note(shard_note(one), "a.csv");
    EXPECT_EQ(read.shard.index, 1u);
    EXPECT_EQ(read.shard.count, 3u);
    EXPECT_EQ(shard_note(read), shard_note(one));
  }
}

TEST(PredictionShard, AnotherNoteIsRefused) {
  EXPECT_ERROR(read_shard_note("", "a.csv"), "a.csv does not say which shard it is");
  const std::string note = shard_note({.shard = {1, 3}, .of = "x"});
  // Cut anywhere, and with other words.
  for (size_t end = 1; end < note.size(); ++end)
    EXPECT_ERROR(read_shard_note(note.substr(0, end), "a.csv"), "a.csv is damaged");
  for (const std::string text : {"[]", "{}", "{\"shard\":3}", "{\"shard\":\"4/3\"}"})
    EXPECT_ERROR(read_shard_note("# lacuna shard " + text, "a.csv"), "a.csv is damaged");
}

// Files 0.csv, 1.csv, .. with these shards, put in order: their names.
std::string ordered(const std::vector<std::pair<Shard, std::string>>& shards) {
  std::vector<ShardFile> files;
  for (const auto& [shard, of] : shards)
    files.push_back({std::to_string(files.size()) + ".csv", {.shard = shard, .of = of}});
  std::string names;
  for (const ShardFile& file : in_order(files)) names += file.path.string() + " ";
  return names;
}

TEST(PredictionShard, AllOfThemInOrder) {
  EXPECT_EQ(ordered({{{0, 1}, "a"}}), "0.csv ");
  EXPECT_EQ(ordered({{{2, 3}, "a"}, {{0, 3}, "a"}, {{1, 3}, "a"}}), "1.csv 2.csv 0.csv ");
  EXPECT_ERROR(ordered({{{2, 3}, "a"}, {{1, 3}, "a"}}), "shard 1/3 is missing: 2 of 3 files");
  EXPECT_ERROR(ordered({{{2, 3}, "a"}, {{0, 3}, "a"}}), "shard 2/3 is missing");
  EXPECT_ERROR(ordered({{{0, 3}, "a"}, {{1, 3}, "a"}}), "shard 3/3 is missing");
  EXPECT_ERROR(ordered({{{0, 2}, "a"}, {{1, 2}, "a"}, {{0, 2}, "a"}}),
               "0.csv and 2.csv are both shard 1/2");
  EXPECT_ERROR(ordered({{{0, 2}, "a"}, {{1, 2}, "b"}}), "0.csv and 1.csv are shards of two");
  EXPECT_ERROR(ordered({{{0, 2}, "a"}, {{1, 3}, "a"}, {{2, 3}, "a"}}), "are shards of two");
}

}  // namespace
}  // namespace lacuna
