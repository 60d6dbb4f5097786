// The parts of a training step and of a checkpoint, against loops in plain doubles.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/nn/model.h"
#include "lacuna/screen/testing.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/optimiser.h"
#include "lacuna/train/screen_task.h"
#include "lacuna/train/step.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double plain_loss(const std::string& kind, double e) {
  if (kind == "mse") return e * e;
  if (kind == "logcosh") return std::log(std::cosh(e));
  return std::abs(e) <= 1 ? e * e / 2 : std::abs(e) - 0.5;
}

at::Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

TEST(BatchLoss, IsTheWeightedMeanOverWhatWasMeasured) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr int kB = 7, kL = 3;
  for (const char* kind : {"mse", "logcosh", "huber"}) {
    for (const bool weighted : {false, true}) {
      std::vector<double> predicted, labels, weights;
      double sum = 0, share = 0;
      for (int b = 0; b < kB; ++b) {
        weights.push_back(b == 0 ? 0 : random.uniform() * 3);
        for (int l = 0; l < kL; ++l) {
          predicted.push_back(random.normal() * 2);
          labels.push_back(random.below(3) == 0 ? kNan : random.normal() * 2);
          if (std::isnan(labels.back())) continue;
          const double weight = weighted ? weights.back() : 1;
          sum += weight * plain_loss(kind, predicted.back() - labels.back());
          share += weight;
        }
      }
      at::Tensor p = tensor_of(predicted, {kB, kL}).requires_grad_(true);
      const at::Tensor loss = batch_loss(kind, p, tensor_of(labels, {kB, kL}),
                                         weighted ? tensor_of(weights, {kB}) : at::Tensor());
      EXPECT_NEAR(loss.item<double>(), share > 0 ? sum / share : 0, 1e-12) << kind << weighted;
      loss.backward();
      const auto gradient = p.grad().contiguous();
      ASSERT_TRUE(at::isfinite(gradient).all().item<bool>()) << kind;
      for (int i = 0; i < kB * kL; ++i)
        if (std::isnan(labels[size_t(i)])) {
          EXPECT_EQ(gradient.const_data_ptr<double>()[i], 0) << kind;
        }
    }
  }
}

TEST(BatchLoss, NothingMeasuredGivesNoughtAndNoGradient) {
  for (const char* kind : {"mse", "logcosh", "huber"}) {
    at::Tensor p = at::ones({2, 1}, at::kFloat).requires_grad_(true);
    const auto loss = batch_loss(kind, p, at::full({2, 1}, kNan, at::kFloat), {});
    EXPECT_EQ(loss.item<double>(), 0);
    loss.backward();
    EXPECT_EQ(p.grad().abs().sum().item<double>(), 0);
  }
}

TEST(BatchLoss, LargeErrorsDoNotOverflowLogCosh) {
  const auto loss =
      batch_loss("logcosh", at::full({1, 1}, 1e4, at::kFloat), at::zeros({1, 1}, at::kFloat), {});
  EXPECT_NEAR(loss.item<double>(), 1e4 - std::log(2.0), 1e-2);
  EXPECT_ERROR(batch_loss("mae", at::ones({1, 1}), at::ones({1, 1}), {}), "no loss 'mae'");
}

TrainOptions plain_options() {
  TrainOptions options = {};
  options.lr = 0.01;
  options.weight_decay = 0.1;
  options.clip = 0.5;
  options.accumulate = 1;
  options.loss = "mse";
  return options;
}

struct Module : torch::nn::Module {
  explicit Module(at::Tensor value) { w = register_parameter("w", std::move(value)); }
  at::Tensor w;
};

TEST(Optimiser, IsAdamWWithTheNormClipped) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr size_t kSize = 11;
  std::vector<double> w(kSize), m(kSize, 0), v(kSize, 0);
  for (double& value : w) value = random.normal();
  Module module(tensor_of(w, {kSize}).clone());
  const TrainOptions options = plain_options();
  Optimiser optimiser(module, options);
  for (int step = 1; step <= 20; ++step) {
    const double scale = step % 3 ? 3 : 0.01;  // clipped, and not
    std::vector<double> g(kSize);
    double norm = 0;
    for (double& value : g) {
      value = random.normal() * scale;
      norm += value * value;
    }
    norm = std::sqrt(norm);
    module.w.mutable_grad().copy_(tensor_of(g, {kSize}));
    const double lr = 0.01 * step;
    optimiser.set_learning_rate(lr);
    EXPECT_NEAR(optimiser.update().item<double>(), norm, 1e-9 * norm);
    EXPECT_EQ(module.w.grad().abs().sum().item<double>(), 0);
    for (size_t i = 0; i < kSize; ++i) {
      const double gradient = g[i] * std::min(1.0, options.clip / (norm + 1e-6));
      w[i] -= double(float(lr)) * options.weight_decay * w[i];
      m[i] = 0.9 * m[i] + 0.1 * gradient;
      v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
      const double m_hat = m[i] / (1 - std::pow(0.9, step));
      const double v_hat = v[i] / (1 - std::pow(0.999, step));
      w[i] -= double(float(lr)) * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    const auto found = module.w.detach().contiguous();
    for (size_t i = 0; i < kSize; ++i)
      ASSERT_NEAR(found.const_data_ptr<double>()[i], w[i], 1e-6) << "step " << step;
  }
}

// A small model with its optimiser, both with random contents.
struct TrainedModel {
  explicit TrainedModel(uint64_t seed)
      : graph(generate_graph(GraphSize::tiny, 3), at::kCPU),
        model(make_model(YAML::Load("{name: hetero_gin, width: 8, layers: 1}"), graph, 2, seed)),
        optimiser(*model, plain_options()) {
    at::manual_seed(seed);
    for (auto* states : {&optimiser.exp_avg, &optimiser.exp_avg_sq})
      for (at::Tensor& state : *states) state.uniform_();
  }
  GeneGraph graph;
  std::shared_ptr<Model> model;
  Optimiser optimiser;
};

const LabelScale kLabels = {{"a", "b"}, {1, 0}, {0.1, -2e-7}, {1.0 / 3, 5}};

void write(const fs::path& file, const TrainedModel& from, const TrainState& state) {
  Fingerprint fingerprint;
  fingerprint.add("genes", 42);
  write_checkpoint(file, *from.model, from.optimiser, state,
                   {{"labels",
                     {{"names", kLabels.names},
                      {"columns", kLabels.columns},
                      {"mean", kLabels.mean},
                      {"sd", kLabels.sd}}},
                    {"fingerprint", fingerprint.to_json()}});
}

TEST(Checkpoint, HoldsAllThatItWasGiven) {
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "last.safetensors";
  const TrainedModel first(1);
  TrainState state;
  state.step = 77;
  state.epoch = 3;
  state.loader = {.seed = 9, .epoch = 3, .position = 5, .samples = 100, .global_batch = 4};
  state.loss_sum = 0.1;
  state.loss_count = 20;
  state.best = {{"pearson", 1.0 / 7}, {"mse", kNan}};
  state.epochs_without_better = 2;
  state.seconds = 1.5;
  write(file, first, state);

  TrainedModel second(2);
  const Safetensors contents = read_checkpoint(file);
  load_weights(contents, file, *second.model);
  load_optimiser(contents, file, *second.model, second.optimiser);
  const auto a = first.model->parameters(), b = second.model->parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i], b[i]));
    EXPECT_TRUE(at::equal(first.optimiser.exp_avg[i], second.optimiser.exp_avg[i]));
    EXPECT_TRUE(at::equal(first.optimiser.exp_avg_sq[i], second.optimiser.exp_avg_sq[i]));
  }
  const TrainState found = read_train_state(contents, file);
  EXPECT_EQ(found.step, state.step);
  EXPECT_EQ(found.epoch, state.epoch);
  EXPECT_EQ(found.loader, state.loader);
  EXPECT_EQ(found.loss_sum, state.loss_sum);
  EXPECT_EQ(found.loss_count, state.loss_count);
  EXPECT_EQ(found.best.at("pearson"), state.best.at("pearson"));
  EXPECT_TRUE(std::isnan(found.best.at("mse")));  // none yet
  EXPECT_EQ(found.epochs_without_better, state.epochs_without_better);
  const LabelScale labels = read_label_scale(contents, file);
  EXPECT_EQ(labels.names, kLabels.names);
  EXPECT_EQ(labels.columns, kLabels.columns);
  EXPECT_EQ(labels.mean, kLabels.mean);  // bit for bit
  EXPECT_EQ(labels.sd, kLabels.sd);
  EXPECT_EQ(read_fingerprint(contents, file).parts().at(0).hash, 42u);
}

TEST(Checkpoint, OtherModelsAreRefusedByName) {
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "c.safetensors";
  const TrainedModel trained(1);
  write(file, trained, {});
  const Safetensors contents = read_checkpoint(file);
  const auto other = [&](const char* settings) {
    const auto model = make_model(YAML::Load(settings), trained.graph, 2, 1);
    return error_of([&] { load_weights(contents, file, *model); });
  };
  EXPECT_NE(other("{name: hetero_gin, width: 16, layers: 1}").find("another shape"),
            std::string::npos);
  EXPECT_NE(other("{name: hetero_gin, width: 8, layers: 2}").find("has no '"), std::string::npos);
}

// Cut at any place, or with any byte changed, it is an Error and never a crash or a silent success.
TEST(Checkpoint, DamageAnywhereIsAnError) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory temporary;
  const fs::path file = temporary / "c.safetensors";
  TrainedModel trained(1);
  write(file, trained, {});
  const std::string whole = read_text(file);
  const auto read = [&] {
    const Safetensors contents = read_checkpoint(file);
    load_weights(contents, file, *trained.model);
    load_optimiser(contents, file, *trained.model, trained.optimiser);
    read_label_scale(contents, file);
    read_fingerprint(contents, file);
  };
  ASSERT_NO_THROW(read());
  for (int i = 0; i < 150; ++i) {
    const size_t place = i < 60 ? random.below(2000) : random.below(whole.size());
    write_file(file, whole.substr(0, place));
    EXPECT_THROW(read(), Error) << "cut at " << place;
    std::string changed = whole;
    changed[place] = char(changed[place] ^ char(1 << random.below(8)));
    write_file(file, changed);
    EXPECT_THROW(read(), Error) << "changed at " << place;
  }
}

TEST(BatchFeed, OnTheCpuABatchIsAsWideAsItsOwnSamples) {
  const TemporaryDirectory folder;
  const Screen screen =
      write_screen(folder / "screen", {small_graph(1), small_samples(1, 30), {}, {}});
  const RungSource source(screen, RungMasks(), 1);
  Loader loader(source, {.order = {.global_batch = 1}, .threads = 0});
  const LabelScale labels = {{"fitness"}, {0}, {0}, {1}};
  const int64_t widest = widest_removal(screen.samples());
  ASSERT_EQ(widest, 4);
  BatchFeed feed(loader, labels, {.batch = 1, .widest = widest});
  const RemovedReader reader(screen.samples());
  std::set<int64_t> widths;
  while (const DeviceBatch* batch = feed.next()) {
    widths.insert(batch->input.sets.size(1));
    const int64_t removed = int64_t(reader.count(batch->samples[0]));
    EXPECT_EQ(batch->input.sets.size(1), std::max<int64_t>(1, removed));
  }
  EXPECT_EQ(widths, (std::set<int64_t>{1, 2, 3, 4}));
}

TEST(ScreenSession, AWordThatIsNoDeviceIsAnError) {
  const auto ignore = [](const std::string&) {};
  EXPECT_ERROR(choose_device("gpu", ignore), "no device 'gpu'; there are: auto, cpu, cuda");
  EXPECT_ERROR(choose_device("", ignore), "auto, cpu, cuda");
  EXPECT_EQ(choose_device("cpu", ignore), at::kCPU);
}

// screen: whatever; only model and loss are asked for.
ScreenTask task_of(const TrainedModel& trained, const TrainOptions& options, const Screen& screen) {
  Config config = parse_config("screen: none", {});
  config.train = options;
  return ScreenTask({config, screen, {}, {}, {}, {}, trained.graph, trained.model});
}

// Batches that are parts of a step give the gradient of one batch with all their samples.
TEST(Stepper, SeveralBatchesAreOneLargeBatch) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr int kSamples = 10;
  std::vector<int32_t> removed, ptr = {0};
  std::vector<double> labels;
  for (int s = 0; s < kSamples; ++s) {
    for (int k = 0; k < 3; ++k) removed.push_back(int32_t(random.below(40)));
    ptr.push_back(int32_t(removed.size()));
    for (int l = 0; l < 2; ++l) labels.push_back(random.normal());
  }
  const TemporaryDirectory folder;
  const Screen screen =
      write_screen(folder / "screen", {small_graph(1), small_samples(1, 30), {}, {}});
  const auto batch_of = [&](int first, int last) {
    std::vector<int32_t> from_zero;
    for (int s = first; s <= last; ++s) from_zero.push_back(ptr[size_t(s)] - ptr[size_t(first)]);
    DeviceBatch batch;
    batch.input = make_input(
        std::span(removed).subspan(size_t(3 * first), size_t(3 * (last - first))), from_zero);
    batch.labels = tensor_of(labels, {kSamples, 2}).narrow(0, first, last - first).to(at::kFloat);
    return batch;
  };
  const auto train = [&](const std::vector<int>& ends) {
    TrainOptions options = plain_options();
    options.batch = kSamples;
    TrainedModel trained(5);
    trained.model->eval();  // without dropout
    ScreenTask task = task_of(trained, options, screen);
    Optimiser optimiser(*trained.model, options);
    Stepper stepper(task, optimiser);
    for (uint64_t step = 0; step < 3; ++step)
      for (size_t i = 0; i + 1 < ends.size(); ++i)
        stepper.run(batch_of(ends[i], ends[i + 1]),
                    {.step = step,
                     .index = int64_t(i),
                     .is_last = i + 2 == ends.size(),
                     .lr = 0.01,
                     .share = double(ends[i + 1] - ends[i]) / kSamples});
    EXPECT_EQ(stepper.first_bad_step(), -1);
    return at::cat([&] {
      std::vector<at::Tensor> flat;
      for (const auto& parameter : trained.model->parameters())
        flat.push_back(parameter.detach().flatten().to(at::kDouble));
      return flat;
    }());
  };
  const auto once = train({0, 10}), parts = train({0, 4, 8, 10}), other = train({0, 9});
  // Rounding moves a weight by up to lr where its gradient is next to nothing (Adam divides by it);
  // a sample more or less moves nearly all of them.
  const double rounding = (parts - once).norm().item<double>();
  EXPECT_LT(rounding, 0.1 * (other - once).norm().item<double>());
}

// ---- whole trainings, on a screen of a temporary directory

Config short_training(const TemporaryDirectory& folder, const std::string& model) {
  write_screen(folder / "screen", {small_graph(1), small_samples(1, 40), {thirds_split(40)}, {}});
  return parse_config("screen: " + (folder / "screen").string() +
                          "\nsplit: thirds\nmodel: " + model +
                          "\nlabels: [fitness]\ntrain: {epochs: 1, batch: 4, log_every: 1}\n",
                      {"evaluate.baselines=false"});
}

TEST(Train, WhatWentWrongFirstIsTold) {
  struct Breaking : TrainListener {
    explicit Breaking(fs::path run) : run_(std::move(run)) {}
    void step(const TrainProgress&) override {
      fs::remove(run_ / "run.json");  // so that the failure cannot be written down either
      throw Error("the first thing that went wrong");
    }
    fs::path run_;
  };
  const TemporaryDirectory folder;
  Breaking listener(folder / "run");
  EXPECT_ERROR(
      train(short_training(folder, "{name: mlp, width: 4}"), {.out = folder / "run"}, listener),
      "the first thing that went wrong");
}

}  // namespace
}  // namespace lacuna
