#include "lacuna/run/recording/session_start.h"

#include <gtest/gtest.h>

#include <set>

#include "lacuna/recording/generate_recording.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/transforms/statistic_memory.h"
#include "lacuna/recording/trial_split.h"

namespace lacuna {
namespace {

class SessionStartTest : public ::testing::Test {
 protected:
  SessionStartTest() {
    generate_recording(path(), {.sessions = 2, .minutes = 0.3, .seed = 5, .side = 17, .units = 3},
                       "test");
    for (const uint64_t seed : {1, 2})
      add_split(path(), draw_trial_split(Recording::open(path()), fmt::format("split{}", seed),
                                         {.seed = seed}));
  }
  fs::path path() const { return folder_ / "rec"; }
  uint64_t key(const std::vector<std::string>& settings, size_t session = 0) const {
    const Config config = parse_config(
        fmt::format("recording: {}\nsplit: split1\nwindow: {{lags: 6, inputs: [behavior]}}\n",
                    path().string()),
        settings);
    const PreparedRecording prepared = open_prepared(config);
    return session_start_key(prepared, config, prepared.recording.sessions().at(session));
  }
  TemporaryDirectory folder_;
};

TEST_F(SessionStartTest, TheKeyKnowsAllThatDecides) {
  const std::vector<std::vector<std::string>> different = {
      {},
      {"split=split2"},
      {"window.lags=7"},
      {"window.step=2"},
      {"window.inputs=[]"},
      {"window.inputs=[behavior:2]"},
      {"units=[u000]"},
      {"segments=[images]"},
      {"rung=ram:bf16"},
      {"transforms.stim={from: stim, ops: [{crop: {y: 1, x: 1, height: 9, width: 9}}]}"},
      {"transforms.behavior={from: behavior, ops: [symlog]}"}};
  std::set<uint64_t> keys = {key({}, 1)};
  for (const auto& settings : different) keys.insert(key(settings));
  EXPECT_EQ(keys.size(), different.size() + 1);
  for (const std::vector<std::string>& same : std::vector<std::vector<std::string>>{
           {"sessions=[m1_000]"}, {"rung=ram:u8"}, {"train.batch=3"}, {"model.channels=5"}})
    EXPECT_EQ(key(same), key({})) << same[0];
}

// Fields of other bytes, and a session that is added beside it.
TEST_F(SessionStartTest, TheKeyIsOfTheSessionsOwnBytes) {
  const uint64_t before = key({});
  generate_recording(path(),
                     {.sessions = 1,
                      .minutes = 0.3,
                      .seed = 5,
                      .side = 17,
                      .units = 3,
                      .first_session = 2,
                      .add = true},
                     "test");
  EXPECT_EQ(key({}), before);
  fs::remove_all(path());
  generate_recording(path(), {.sessions = 2, .minutes = 0.3, .seed = 6, .side = 17, .units = 3},
                     "test");
  add_split(path(), draw_trial_split(Recording::open(path()), "split1", {.seed = 1}));
  EXPECT_NE(key({}), before);
}

TEST_F(SessionStartTest, WhatIsRememberedComesBackToTheBit) {
  const SessionStart start = {{{0.1, 1.0 / 3}, {1e-300, -2.0 / 7}, {1, 5}},
                              {0.1f, -1.0f / 3, 1, 0}};
  EXPECT_FALSE(recall_session_start(path(), 7));
  remember_session_start(path(), 7, start);
  const auto found = recall_session_start(path(), 7);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->scale.mean_counts, start.scale.mean_counts);
  EXPECT_EQ(found->scale.input_mean, start.scale.input_mean);
  EXPECT_EQ(found->scale.input_sd, start.scale.input_sd);
  EXPECT_EQ(found->places, start.places);
  Recording::open(path()).check(Progress::none());  // a recording may have it
}

TEST_F(SessionStartTest, ADamagedFileIsNotBelieved) {
  remember_session_start(path(), 7, {{{0.125}, {}, {}}, {0.5f, 0.5f}});
  const fs::path file = statistic_file(path(), 7);
  std::string text = read_text(file);
  text.replace(text.find("0.125"), 5, "0.625");
  write_text_atomically(file, text);
  EXPECT_FALSE(recall_session_start(path(), 7));
  EXPECT_FALSE(recall_session_start(folder_ / "none", 7));
  remember_session_start(folder_ / "none", 7, {});  // cannot be written: nothing is said
}

}  // namespace
}  // namespace lacuna
