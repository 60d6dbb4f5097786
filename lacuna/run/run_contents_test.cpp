#include "lacuna/run/run_contents.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/testing.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ARun = Run;  // inside of a test, Run is a function of GoogleTest

constexpr const char* kRun = R"({"format": "lacuna.run", "version": 1, "status": "finished",
  "command": "lacuna train c.yaml", "parameters": 12, "message": null,
  "screen": {"path": "demo", "fingerprint": {"genes": "0123456789abcdef"}, "samples": 100}})";
constexpr const char* kStep = R"({"kind":"step","epoch":0,"step":50,"loss":0.5,"lr":1e-3})";

fs::path write_run(const fs::path& path, const std::string& metrics = std::string(kStep) + "\n") {
  fs::create_directories(path);
  write_file(path / "run.json", kRun);
  write_file(path / "config.yaml", "screen: demo\nsplit: 'pair'\n");
  write_file(path / "metrics.jsonl", metrics);
  return path;
}

TEST(RunContents, ReadsWhatIsThereAndLeavesEmptyWhatIsNot) {
  const TemporaryDirectory folder;
  const auto run = read_run(write_run(folder / "first"));
  EXPECT_EQ(run.name, "first");
  EXPECT_TRUE(run.is_finished());
  EXPECT_EQ(run.info.parameters, 12u);
  EXPECT_EQ(run.info.samples, 100u);
  EXPECT_EQ(run.info.genes, 0u);
  EXPECT_EQ(run.split(), "pair");
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.steps[0].loss, 0.5);
  EXPECT_TRUE(std::isnan(run.steps[0].samples_per_s));
  EXPECT_FALSE(run.evaluation || run.profile || run.ladder);
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_EQ(run.main_part(), nullptr);
  EXPECT_EQ(read_run(folder / "first/").name, "first");
}

TEST(RunContents, NullIsNotDefinedAndPartsKeepTheirOrder) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run");
  write_file(path / "evaluation.json", R"({"format": "lacuna.evaluation", "version": 1,
    "split": "gene", "checkpoint": "best_mse", "parts": {
    "validation": {"samples": 3, "labels": {}},
    "test": {"samples": 5, "labels": {"b": {"model": {"count": 4, "pearson": null, "mse": 0.5,
      "interval": {"pearson": null, "mse": [0.25, 0.75]}}, "baselines": {"mean": {"count": 4}}},
      "a": {"model": {"count": 4}}}}}})");
  const auto run = read_run(path);
  EXPECT_EQ(run.split(), "gene");
  const PartEvaluation* part = run.main_part();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->part, "test");
  const Scores& model = part->labels[0].model();
  EXPECT_TRUE(std::isnan(model.metrics.pearson) && std::isnan(model.estimate(kPearson).low));
  EXPECT_EQ(model.estimate(kMse).high, 0.75);
  EXPECT_EQ(part->labels[0].baselines()[0].predictor, "mean");
  EXPECT_THAT(run.label_names(2), ElementsAre("b", "a"));
  EXPECT_THAT(run.label_names(3), ElementsAre("label 1", "label 2", "label 3"));
}

TEST(RunContents, ATornLastLineIsToldAndLeftOut) {
  const TemporaryDirectory folder;
  const std::string whole = std::string(kStep) + "\n";
  for (const std::string torn : {R"({"kind":"step","ep)", "{\"kind\":\"step\"}\n", "\xff\xfe"}) {
    const auto run = read_run(write_run(folder / "run", whole + torn));
    EXPECT_EQ(run.steps.size(), 1u);
    ASSERT_EQ(run.notes.size(), 1u) << torn;
    EXPECT_THAT(run.notes[0], HasSubstr("line 2"));
  }
  write_run(folder / "run", whole + "{torn\n" + whole);
  EXPECT_ERROR(read_run(folder / "run"), "line 2 of");
}

TEST(RunContents, LinesComeBack) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run", "");
  const ARun run = ARun::open(path);
  run.add_metrics(to_json(StepLine{.epoch = 1, .step = 7, .loss = 0.25, .grad_norm = INFINITY}));
  run.add_metrics(to_json(EpochLine{.epoch = 1,
                                    .step = 9,
                                    .train_loss = 2,
                                    .validation = {{"a", {3, 0.5, kNotDefined, 4}}},
                                    .seconds = 8}));
  const MetricsLog log = read_metrics(path / "metrics.jsonl", "");
  EXPECT_TRUE(log.state.is_checked && !log.state.torn_line);
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].step, 7u);
  EXPECT_EQ(log.steps[0].loss, 0.25);
  EXPECT_TRUE(std::isnan(log.steps[0].grad_norm));
  ASSERT_EQ(log.epochs.size(), 1u);
  EXPECT_EQ(log.epochs[0].seconds, 8);
  ASSERT_EQ(log.epochs[0].validation.size(), 1u);
  EXPECT_EQ(log.epochs[0].validation[0].metrics.count, 3u);
  EXPECT_TRUE(std::isnan(log.epochs[0].validation[0].metrics.spearman));
}

TEST(RunContents, WhatAResumedRunLogsAgainReplacesWhatItLoggedBefore) {
  const auto step = [](int step, double loss) {
    return fmt::format("{{\"kind\":\"step\",\"epoch\":0,\"step\":{},\"loss\":{}}}\n", step, loss);
  };
  const std::string epoch = R"({"kind":"epoch","epoch":0,"step":30,"train_loss":9})"
                            "\n";
  const TemporaryDirectory folder;
  const auto run = read_run(write_run(
      folder / "run", step(10, 1) + step(20, 2) + step(30, 3) + epoch + step(20, 4) + step(30, 5)));
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[1].loss, 4);
  EXPECT_EQ(run.steps[2].loss, 5);
  EXPECT_THAT(run.epochs, IsEmpty());  // the epoch that was thrown back was not completed again
}

TEST(RunContents, PredictionsMustBelongTogether) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run");
  fs::create_directories(path / "predictions");
  const auto write = [&](const std::string& name, const Array& array) {
    write_npy(path / "predictions" / name, array);
  };
  write("test.sample.npy", Array::from<uint32_t>({7, 9}));
  write("test.predicted.npy", Array::from<float>({1, 2, 3, 4}, {2, 2}));
  write("test.measured.npy", Array::from<float>({5, 6, 7, 8}, {2, 2}));
  // Without an evaluation, or of a part that it has not, they mean nothing.
  EXPECT_THAT(read_run(path).predictions, IsEmpty());
  const auto evaluate = [&](const std::string& part) {
    write_file(path / "evaluation.json",
               R"({"format": "lacuna.evaluation", "version": 1, "parts": {")" + part +
                   R"(": {"samples": 2, "labels": {}}}})");
  };
  evaluate("validation");
  EXPECT_THAT(read_run(path).predictions, IsEmpty());
  evaluate("test");
  const auto run = read_run(path);
  ASSERT_EQ(run.predictions.size(), 1u);
  EXPECT_THAT(run.predictions[0].samples, ElementsAre(7, 9));
  EXPECT_THAT(run.predictions[0].predicted, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(run.predictions[0].measured, ElementsAre(5, 6, 7, 8));
  write("test.measured.npy", Array::from<float>({5, 6}, {2, 1}));
  EXPECT_ERROR(read_run(path), "do not belong together");
  fs::remove(path / "predictions/test.measured.npy");
  EXPECT_ERROR(read_run(path), "test.measured.npy");
}

TEST(RunContents, ADamagedFileIsNamedWithTheRemedy) {
  const TemporaryDirectory folder;
  EXPECT_ERROR(read_run(folder / "nothing"), "is not a directory");
  fs::create_directories(folder / "empty");
  EXPECT_ERROR(read_run(folder / "empty"), "has no run.json");

  const fs::path path = write_run(folder / "run");
  struct Case {
    const char *file, *text, *words;
  };
  for (
      const Case& damaged :
      {Case{"run.json", "{", "run.json is damaged"},
       {"run.json", R"({"format": "lacuna.screen", "version": 1})", "says format 'lacuna.screen'"},
       {"run.json", R"({"format": "lacuna.run", "version": 2})", "newer Lacuna"},
       {"run.json", R"({"format": "lacuna.run", "version": 1, "status": 7})",
        "run.json is damaged"},
       {"evaluation.json", R"({"format": "lacuna.evaluation", "version": 1, "parts": 3})",
        "lacuna evaluate"},
       {"evaluation.json",
        R"({"format": "lacuna.evaluation", "version": 1, "parts": {"test": {"labels": {"a": {"model": {"pearson": "x"}}}}}})",
        "evaluation.json is damaged"},
       {"profile.json", "[]", "profile.json is damaged"},
       {"ladder.json", R"({"format": "lacuna.ladder", "version": 1, "rungs": [{}]})",
        "ladder.json is damaged"}}) {
    write_run(path);
    const bool was_there = fs::exists(path / damaged.file);
    write_file(path / damaged.file, damaged.text);
    EXPECT_ERROR(read_run(path), damaged.words);
    if (!was_there) fs::remove(path / damaged.file);
  }
}

TEST(RunContents, ProfileAndLadderComeBack) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run");
  StepProfile profile;
  profile.machine = "2 cores";
  profile.config = "train: {batch: 4}\n";
  profile.data = {{"screen", {{"path", "/data"}}}};
  profile.wall_ms = 3;
  profile.cpu = {{"load", 1, 0.25}, {"idle", 3, 0.75}};
  profile.ways = {"mlp: one kernel each way"};
  profile.trace = Json::array();
  write_profile(path, profile);
  LadderMeasurement measured;
  measured.batch = 28;
  measured.rungs.resize(2);
  measured.rungs[0].rung = Rung::worker;
  measured.rungs[0].batch_seconds = 0.5;
  measured.rungs[0].planned_seconds = 0.25;
  measured.rungs[1].is_exact = true;
  measured.rungs[1].steps_per_second = 3;
  Ladder ladder = ladder_of(measured);
  ladder.screen = "/data";
  ladder.peers = {peer_from_json({{"name", "copies, 2 workers"}, {"left_out", "no memory"}}),
                  peer_from_json({{"name", "torch"}, {"way", "torch"}, {"host_peak_bytes", 12}})};
  write_ladder(path / "ladder.json", ladder);
  EXPECT_NE(read_text(path / "ladder.json").find("\"train_steps_per_s\": null"), std::string::npos);

  const RunContents run = read_run(path);
  EXPECT_EQ(run.profile->machine, "2 cores");
  EXPECT_EQ(run.profile->config, profile.config);
  EXPECT_EQ(run.profile->data, profile.data);
  EXPECT_EQ(run.profile->ways, profile.ways);
  EXPECT_FALSE(run.profile->recorded_ms);
  ASSERT_EQ(run.profile->cpu.size(), 2u);
  EXPECT_EQ(run.profile->cpu[1].share, 0.75);
  EXPECT_EQ(excess_ms(*run.profile, run.profile->cpu), 1);
  ASSERT_EQ(run.ladder->rungs.size(), 2u);
  EXPECT_EQ(run.ladder->screen, "/data");
  EXPECT_EQ(run.ladder->rungs[0].name, "worker");
  EXPECT_EQ(run.ladder->rungs[0].samples_per_s, 56);
  EXPECT_EQ(run.ladder->rungs[0].planned_ratio, 2);
  EXPECT_TRUE(std::isnan(run.ladder->rungs[0].train_steps_per_s));
  EXPECT_EQ(run.ladder->rungs[1].train_steps_per_s, 3);
  EXPECT_TRUE(*run.ladder->rungs[1].is_exact);
  ASSERT_EQ(run.ladder->peers.size(), 2u);
  EXPECT_EQ(run.ladder->peers[0].left_out, "no memory");
  EXPECT_EQ(run.ladder->peers[1].host_peak_bytes, 12);
}

// A model and keys of another version, and what older files leave out.
TEST(RunContents, AConfigOfAnotherVersionIsRead) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run");
  write_file(path / "config.yaml", "screen: demo\nmodel: {name: gone, depth: 3}\nfuture: 1\n");
  EXPECT_EQ(read_run(path).setting("model.name"), "gone");
  write_file(path / "config.yaml", "screen: [");
  EXPECT_ERROR(read_run(path), "config.yaml: line 1");
}

// A run as Lacuna writes it today: every file sealed.
fs::path write_sealed_run(const fs::path& path) {
  write_run(path);
  Json step = Json::parse(kStep);
  const std::string first = sealed_json_line(step);
  step["step"] = 100;
  const std::string last = sealed_json_line(step);
  write_file(path / "metrics.jsonl", first + "\n" + last + "\n");
  Json info = Json::parse(kRun);
  info["metrics_end"] = hex(hash64(last));
  write_sealed_json(path / "run.json", info);
  write_file(path / "config.yaml", sealed_yaml("screen: demo\nsplit: pair\n"));
  write_sealed_json(path / "evaluation.json",
                    {{"format", "lacuna.evaluation"},
                     {"version", 1},
                     {"parts", {{"test", {{"labels", Json::object()}}}}}});
  write_sealed_json(path / "profile.json",
                    {{"format", "lacuna.profile"}, {"version", 1}, {"device", "cpu"}});
  write_sealed_json(path / "ladder.json",
                    {{"format", "lacuna.ladder"}, {"version", 1}, {"rungs", Json::array()}});
  return path;
}

const std::vector<std::string> kSealed = {"run.json",        "config.yaml",  "metrics.jsonl",
                                          "evaluation.json", "profile.json", "ladder.json"};

TEST(RunContents, EveryFlippedByteIsToldByTheFilesName) {
  const TemporaryDirectory folder;
  const fs::path path = write_sealed_run(folder / "run");
  EXPECT_THAT(read_run(path).unchecked, IsEmpty());
  EXPECT_EQ(read_run(path).setting("split"), "pair");
  EXPECT_EQ(read_run(path).config, "screen: demo\nsplit: pair\n");
  for (const std::string& name : kSealed) {
    const std::string whole = read_text(path / name);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (name == "metrics.jsonl" && i + 1 == whole.size()) continue;  // a line is whole without it
      std::string text = whole;
      text[i] = char(text[i] ^ 1);
      write_file(path / name, text);
      EXPECT_ERROR(read_run(path), name);
    }
    for (size_t size = 0; size + 1 < whole.size(); ++size) {
      write_file(path / name, whole.substr(0, size));
      EXPECT_ERROR(read_run(path), name);
    }
    write_file(path / name, whole);
  }
}

TEST(RunContents, WhatIsDamagedIsLeftOutAndListed) {
  const TemporaryDirectory folder;
  const fs::path path = write_sealed_run(folder / "run");
  for (const char* name : {"config.yaml", "metrics.jsonl", "evaluation.json", "profile.json"}) {
    std::string text = read_text(path / name);
    text[text.size() / 2] = char(text[text.size() / 2] ^ 1);
    write_file(path / name, text);
  }
  const auto run = inspect_run(path);
  EXPECT_TRUE(run.config.empty() && run.steps.empty());
  EXPECT_FALSE(run.evaluation || run.profile);
  EXPECT_TRUE(run.ladder.has_value());
  ASSERT_EQ(run.damaged.size(), 4u);
  EXPECT_EQ(run.damaged[3].file, "profile.json");
  EXPECT_THAT(run.damaged[3].message, HasSubstr((path / "profile.json").string() + " is damaged"));
  EXPECT_ERROR(read_run(path), "damaged, too: metrics.jsonl, evaluation.json, profile.json");
}

TEST(RunContents, AnEnsembleHasItsMembersAndNoSteps) {
  const TemporaryDirectory folder;
  const fs::path path = write_run(folder / "run");
  EXPECT_FALSE(read_run(path).is_ensemble());
  fs::remove(path / "metrics.jsonl");
  write_sealed_json(path / "ensemble.json",
                    {{"format", "lacuna.ensemble"},
                     {"version", 1},
                     {"weighted", true},
                     {"members",
                      {{{"name", "member 1"}, {"run", "/a b"}, {"weights", {{"y", 0.75}}}},
                       {{"name", "member 2"},
                        {"run", "/a b"},
                        {"weights", {{"y", 0.25}}},
                        {"baseline", "network"}}}}});
  const RunContents run = read_run(path);
  EXPECT_TRUE(run.is_ensemble());
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_EQ(run.ensemble->members.at(1).baseline, "network");
  EXPECT_THAT(run.ensemble->runs(), ElementsAre("/a b"));
  EXPECT_EQ(run.ensemble->command("again"),
            "lacuna ensemble '/a b' --baseline network --weights validation --out again");
  std::string text = read_text(path / "ensemble.json");
  text[text.find("0.75") + 2] = '6';
  write_file(path / "ensemble.json", text);
  const RunContents damaged = inspect_run(path);
  EXPECT_TRUE(damaged.is_ensemble() && damaged.is_damaged("ensemble.json"));
  EXPECT_FALSE(damaged.ensemble);
  EXPECT_THAT(damaged.notes, IsEmpty());
  EXPECT_THAT(damage_words(damaged), HasSubstr("ensemble.json"));
}

TEST(RunContents, OlderFilesAreNotChecked) {
  const TemporaryDirectory folder;
  EXPECT_THAT(read_run(write_run(folder / "run")).unchecked,
              ElementsAre("metrics.jsonl", "run.json", "config.yaml"));
}

TEST(RunContents, RunsOfOneNameAreToldApart) {
  const TemporaryDirectory folder;
  const auto runs = read_runs(
      {write_run(folder / "a/last"), write_run(folder / "b/last"), write_run(folder / "c/other")});
  EXPECT_EQ(runs[0].name, "a/last");
  EXPECT_EQ(runs[1].name, "b/last");
  EXPECT_EQ(runs[2].name, "other");
  EXPECT_ERROR(read_runs({folder / "a/last", folder / "a/../a/last"}), "named twice");

  write_run(folder / "grid/2");  // a folder of runs stands for them
  write_run(folder / "grid/1");
  write_file(folder / "grid/summary.json", "{}");
  const auto grid = read_runs({folder / "grid"});
  ASSERT_EQ(grid.size(), 2u);
  EXPECT_EQ(grid[0].name, "1");
  EXPECT_EQ(grid[1].name, "2");
}

}  // namespace
}  // namespace lacuna
