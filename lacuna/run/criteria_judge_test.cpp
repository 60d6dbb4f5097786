// Every verdict on made-up measurements: good ones pass, an excess is a no, and nothing measured is
// never a yes.
#include "lacuna/run/criteria_judge.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace lacuna {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class Measurement, class Judge>
void expect_no_answer(const Judge& judge) {
  const Criterion open = judge(Measured<Measurement>(NoAnswer{"no GPU"}));
  EXPECT_EQ(open.verdict, Verdict::not_answered);
  EXPECT_EQ(open.figure, "no GPU");
  const Criterion broken = judge(Measured<Measurement>(NoAnswer{"it broke", true}));
  EXPECT_EQ(broken.verdict, Verdict::fail);
  EXPECT_EQ(broken.figure, "it broke");
}

TEST(CriteriaJudge, WithoutAMeasurementNothingPasses) {
  expect_no_answer<MaskMeasurement>(judge_masks);
  expect_no_answer<SpeedMeasurement>(judge_speed);
  expect_no_answer<PredictionMeasurement>(judge_predictions);
  expect_no_answer<MemoryMeasurement>(judge_memory);
  expect_no_answer<RunMeasurement>(judge_run);
  expect_no_answer<RepeatMeasurement>(judge_repeat);
}

TEST(CriteriaJudge, NothingComparedIsNoYes) {
  EXPECT_NE(judge_masks(MaskMeasurement{}).verdict, Verdict::pass);
  EXPECT_NE(judge_speed(SpeedMeasurement{}).verdict, Verdict::pass);
  EXPECT_NE(judge_predictions(PredictionMeasurement{}).verdict, Verdict::pass);
  EXPECT_NE(judge_memory(MemoryMeasurement{.on_gpu = true}).verdict, Verdict::pass);
  EXPECT_NE(judge_run(RunMeasurement{}).verdict, Verdict::pass);
  EXPECT_NE(judge_repeat(RepeatMeasurement{}).verdict, Verdict::pass);
}

TEST(CriteriaJudge, Masks) {
  EXPECT_EQ(judge_masks(MaskMeasurement{28, 3, 1000, 0}).verdict, Verdict::pass);
  EXPECT_EQ(judge_masks(MaskMeasurement{28, 3, 1000, 1}).verdict, Verdict::fail);
}

TEST(CriteriaJudge, Speed) {
  const auto verdict = [](uint64_t batch, bool on_gpu, double ms, std::optional<double> usual) {
    return judge_speed(SpeedMeasurement{batch, on_gpu, ms, usual, "no Python"}).verdict;
  };
  EXPECT_EQ(verdict(28, true, 99, 500), Verdict::pass);
  EXPECT_EQ(verdict(28, true, 101, 500), Verdict::fail);  // under ten a second
  EXPECT_EQ(verdict(29, true, 101, 500), Verdict::pass);  // which are asked up to batch 28
  EXPECT_EQ(verdict(28, false, 2000, 2001), Verdict::pass);
  EXPECT_EQ(verdict(28, false, 2000, 1999), Verdict::fail);
  // Half of the question is open without the usual form: not a yes, on a GPU either.
  EXPECT_EQ(verdict(28, true, 20, std::nullopt), Verdict::not_answered);
  EXPECT_EQ(verdict(28, true, 200, std::nullopt), Verdict::fail);
  EXPECT_EQ(verdict(28, false, 2000, std::nullopt), Verdict::not_answered);
}

TEST(CriteriaJudge, Predictions) {
  const PredictionMeasurement good = {
      3, {0.1, -0.5, 2}, {{"kernel", {0.1, -0.5, 2}}, {"worker", {0.1, -0.5 + 9e-7, 2}}}};
  EXPECT_EQ(judge_predictions(good).verdict, Verdict::pass);
  EXPECT_NEAR(judge_predictions(good).numbers["largest"].get<double>(), 9e-7, 1e-12);
  const auto with = [&](std::vector<double> worker) {
    PredictionMeasurement changed = good;
    changed.ours["worker"] = std::move(worker);
    return judge_predictions(changed);
  };
  EXPECT_EQ(with({0.1, -0.5, 2 + 1.1e-6}).verdict, Verdict::fail);
  EXPECT_NE(with({0.1, -0.5, 2 + 1.1e-6}).figure.find("(worker)"), std::string::npos);
  EXPECT_EQ(with({0.1, -0.5}).verdict, Verdict::fail);  // one is missing
  EXPECT_EQ(with({0.1, kNaN, 2}).verdict, Verdict::fail);
  EXPECT_EQ(with({}).verdict, Verdict::fail);
  PredictionMeasurement nowhere = good;
  nowhere.ours.clear();
  EXPECT_EQ(judge_predictions(nowhere).verdict, Verdict::fail);
  // All samples alike: the bound tells nothing.
  const PredictionMeasurement flat = {2, {0.1, 0.1 + 1e-7}, {{"kernel", {0.1, 0.1}}}};
  EXPECT_EQ(judge_predictions(flat).verdict, Verdict::not_answered);
}

TEST(CriteriaJudge, Memory) {
  const auto judge = [](double kernel, double device, bool on_gpu = true) {
    return judge_memory(MemoryMeasurement{
        on_gpu, 6000e6, 74e6, {{"kernel", kernel}, {"device", device}, {"worker", 9000e6}}});
  };
  EXPECT_EQ(judge(6049e6, 6123e6).verdict, Verdict::pass);
  EXPECT_EQ(judge(6057e6, 6123e6).verdict, Verdict::fail);  // a plan of 57 MB
  EXPECT_EQ(judge(6049e6, 6125e6).verdict, Verdict::fail);  // beyond its masks, too
  EXPECT_EQ(judge(kNaN, 6123e6).verdict, Verdict::fail);
  EXPECT_DOUBLE_EQ(judge(6057e6, 6125e6).numbers["kernel"].get<double>(), 57e6);
  EXPECT_DOUBLE_EQ(judge(6057e6, 6125e6).numbers["device"].get<double>(), 51e6);
  EXPECT_EQ(judge(6049e6, 6123e6, false).verdict, Verdict::not_answered);
  // A rung that failed, or was not asked.
  EXPECT_EQ(judge_memory(MemoryMeasurement{true, 1, 0, {{"kernel", 2}, {"device", std::nullopt}}})
                .verdict,
            Verdict::fail);
  EXPECT_EQ(judge_memory(MemoryMeasurement{true, 1, 0, {{"kernel", 2}}}).verdict, Verdict::fail);
}

TEST(CriteriaJudge, WholeRun) {
  const RunMeasurement good = {.samples = 60,
                               .asked_samples = 60,
                               .training = 48,
                               .epochs = 2,
                               .trained = 96,
                               .steps = 12,
                               .validated = 6,
                               .has_evaluation = true};
  EXPECT_EQ(judge_run(good).verdict, Verdict::pass);
  const auto with = [&](auto change) {
    RunMeasurement changed = good;
    change(changed);
    return judge_run(changed).verdict;
  };
  EXPECT_EQ(with([](auto& run) { run.samples = 59; }), Verdict::fail);
  EXPECT_EQ(with([](auto& run) { run.trained = 95; }), Verdict::fail);  // an epoch cut short
  EXPECT_EQ(with([](auto& run) { run.validated = 0; }), Verdict::fail);
  EXPECT_EQ(with([](auto& run) { run.has_evaluation = false; }), Verdict::fail);
  EXPECT_EQ(with([](auto& run) { run.epochs = 3; }), Verdict::fail);
}

TEST(CriteriaJudge, Repeat) {
  EXPECT_EQ(judge_repeat(RepeatMeasurement{1000, 0}).verdict, Verdict::pass);
  EXPECT_EQ(judge_repeat(RepeatMeasurement{1000, 1}).verdict, Verdict::fail);
}

TEST(CriteriaJudge, EveryAnswerSaysWhatWasComparedAndAsked) {
  const NoAnswer open = {"no GPU"};
  int number = 0;
  for (const Criterion& one : {judge_masks(open), judge_speed(open), judge_predictions(open),
                               judge_memory(open), judge_run(open), judge_repeat(open)}) {
    EXPECT_EQ(one.number, ++number);
    const Json json = one.to_json();
    for (const char* key : {"question", "verdict", "compared", "figure", "bound"})
      EXPECT_NE(json.at(key).get<std::string>(), "") << number << " " << key;
  }
}

}  // namespace
}  // namespace lacuna
