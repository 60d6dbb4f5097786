#include "lacuna/run/run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "lacuna/core/seal.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ARun = Run;  // inside of a test, Run is a function of GoogleTest

std::vector<Json> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Run, IsMadeOnceAndOpenedAgain) {
  const TemporaryDirectory temporary;
  const fs::path path = temporary / "deep/run";
  {
    const ARun run = ARun::create(path, "screen: x\n");
    run.update({{"status", "finished"}, {"parameters", 7}});
    EXPECT_FALSE(run.has_checkpoint("last"));
  }
  const ARun run = ARun::open(path);
  EXPECT_EQ(read_sealed_yaml(run.config()), "screen: x\n");
  EXPECT_EQ(run.info().at("format"), "lacuna.run");
  EXPECT_EQ(run.info().at("status"), "finished");
  EXPECT_EQ(run.info().at("parameters"), 7);
  EXPECT_ERROR(ARun::create(path, ""), "add --resume to go on with it");
  EXPECT_ERROR(ARun::open(temporary.path()), "is not a run");
}

TEST(Run, OtherFilesAreNotTouched) {
  const TemporaryDirectory temporary;
  write_file(temporary / "thesis.txt", "chapter one");
  EXPECT_ERROR(ARun::create(temporary.path(), ""), "holds something else (thesis.txt)");
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary.path()), {}), 1);
  EXPECT_ERROR(ARun::create(temporary / "thesis.txt", ""), "is not a directory");
}

TEST(Run, WhatAKilledStartLeftIsNoHindrance) {
  const TemporaryDirectory temporary;
  fs::create_directories(temporary / "checkpoints");
  write_file(temporary / "lock", "");
  write_file(temporary / "config.yaml", "screen: half");
  EXPECT_EQ(read_sealed_yaml(ARun::create(temporary.path(), "screen: whole").config()),
            "screen: whole");
}

TEST(Run, OneProcessTrainsIt) {
  const TemporaryDirectory temporary;
  const fs::path path = temporary / "run";
  {
    const ARun first = ARun::create(path, "");
    const ARun copy = first;
    EXPECT_ERROR(ARun::resume(path), "is being trained by another process");
    EXPECT_NO_THROW(ARun::open(path));  // reading is free
  }
  EXPECT_NO_THROW(ARun::resume(path));  // the lock is gone with its owner
}

TEST(Run, DamageIsAnError) {
  const TemporaryDirectory temporary;
  const fs::path path = temporary / "run";
  ARun::create(path, "");
  write_file(path / "run.json", "{\"format\": \"lacu");
  EXPECT_ERROR(ARun::open(path), "run.json is damaged");
  write_file(path / "run.json", "{\"format\": \"lacuna.run\", \"version\": 99}");
  EXPECT_ERROR(ARun::open(path), "version 1");
  write_file(path / "run.json", "[1, 2]");
  EXPECT_ERROR(ARun::open(path), "run.json");
  write_file(path / "run.json", "{\"format\": 3, \"version\": \"x\"}");
  EXPECT_ERROR(ARun::open(path), "run.json");
}

TEST(Run, MetricsAreCutBackToACheckpoint) {
  const TemporaryDirectory temporary;
  const ARun run = ARun::create(temporary / "run", "");
  run.cut_metrics(3, 0);  // there are none yet
  for (const uint64_t step : {1, 2, 3, 4}) run.add_metrics({{"kind", "step"}, {"step", step}});
  run.add_metrics({{"kind", "epoch"}, {"epoch", 0}, {"step", 4}});
  run.add_metrics({{"kind", "step"}, {"step", 5}});
  const fs::path file = run.path() / "metrics.jsonl";
  std::ofstream(file, std::ios::app) << R"({"kind":"step","st)";  // torn by a crash

  run.cut_metrics(5, 1);
  EXPECT_EQ(lines_of(file).size(), 6u);
  run.cut_metrics(4, 1);
  EXPECT_EQ(lines_of(file).size(), 5u);
  // A checkpoint after the epoch's last step, before its end: the end comes again.
  run.cut_metrics(4, 0);
  ASSERT_EQ(lines_of(file).size(), 4u);
  EXPECT_EQ(lines_of(file).back().at("kind"), "step");
  run.cut_metrics(0, 0);
  EXPECT_EQ(lines_of(file).size(), 0u);
}

// Every byte of run.json; the line of an older run has no checksum, and opens.
TEST(Run, AFlippedByteOfRunJsonIsAnError) {
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "run/run.json";
  const ARun run = ARun::create(temporary / "run", "");
  run.update({{"parameters", 1234}});
  const std::string whole = read_text(file);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string text = whole;
    text[i] = char(text[i] ^ 1);
    write_file(file, text);
    EXPECT_ERROR(ARun::open(temporary / "run"), "run.json");
  }
  write_file(file, R"({"format": "lacuna.run", "version": 1, "status": "finished"})");
  EXPECT_NO_THROW(ARun::open(temporary / "run"));
}

TEST(Run, ADamagedLineOfMetricsIsNamed) {
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "run/metrics.jsonl";
  {
    const ARun run = ARun::create(temporary / "run", "");
    for (const uint64_t step : {1, 2, 3}) run.add_metrics({{"kind", "step"}, {"step", step}});
  }
  const std::string whole = read_text(file);
  std::string text = whole;
  text[text.find("\"step\":2") + 7] = '7';
  write_file(file, text);
  EXPECT_ERROR(ARun::resume(temporary / "run"), "line 2 of " + file.string() + " is damaged");
  write_file(file, whole.substr(0, whole.size() - 5));  // torn by a crash
  ARun::resume(temporary / "run").cut_metrics(3, 1);
  EXPECT_EQ(lines_of(file).size(), 2u);
  write_file(file, R"({"kind":"step","step":1})"
                   "\n");  // of an older version
  ARun::resume(temporary / "run").cut_metrics(3, 1);
  EXPECT_EQ(lines_of(file).size(), 1u);
}

TEST(Run, LinesOfMetricsThatAreLostAtTheEndAreMissed) {
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "run/metrics.jsonl";
  {
    const ARun run = ARun::create(temporary / "run", "");
    for (const uint64_t step : {1, 2, 3}) run.add_metrics({{"kind", "step"}, {"step", step}});
    run.update({{"status", "stopped"}});
  }
  EXPECT_NO_THROW(ARun::resume(temporary / "run"));
  const std::string whole = read_text(file);
  write_file(file, whole.substr(0, whole.rfind('{')));
  EXPECT_ERROR(ARun::resume(temporary / "run"), "its last line is not the one");
  fs::remove(file);  // the remedy
  ARun::resume(temporary / "run").update({{"status", "running"}});
  write_file(file, whole.substr(0, whole.rfind('{')));  // by a crash
  EXPECT_NO_THROW(ARun::resume(temporary / "run"));
}

}  // namespace
}  // namespace lacuna
