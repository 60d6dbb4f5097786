// For tests only: a Task of a few numbers and a linear model, with no screen at all.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/hash.h"
#include "lacuna/core/random.h"
#include "lacuna/core/seal.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/task.h"

namespace lacuna {

// Rows x with y = x . w and some noise. Training takes the first three quarters.
struct NumberTable {
  explicit NumberTable(uint64_t seed, int64_t rows = 40) {
    Random random(seed);
    for (int64_t i = 0; i < rows; ++i) {
      const double a = random.normal(), b = random.normal();
      values.insert(values.end(), {a, b, 2 * a - b + 0.1 * random.normal()});
    }
  }
  int64_t rows() const { return int64_t(values.size()) / 3; }
  int64_t training() const { return rows() * 3 / 4; }
  at::Tensor tensor() const { return at::tensor(values, at::kDouble).view({-1, 3}); }

  std::vector<double> values;  // [rows, 3] two of x, then y
};

struct NumberBatch : Batch {
  explicit NumberBatch(at::Tensor given) : rows(std::move(given)) {}
  int64_t size() const override { return rows.size(0); }
  std::unique_ptr<Batch> clone() const override {
    return std::make_unique<NumberBatch>(rows.clone());
  }
  void assign(const Batch& other) override {
    rows.copy_(static_cast<const NumberBatch&>(other).rows);
  }
  at::Tensor rows;  // [B, 3]
};

struct NumberSource {
  using Batch = std::vector<uint64_t>;
  uint64_t count;
  uint64_t size() const { return count; }
  void fill(std::span<const uint64_t> places, Batch& out) const {
    out.assign(places.begin(), places.end());
  }
};

class NumberFeed : public Feed {
 public:
  NumberFeed(const NumberTable& table, const TrainOptions& options, const Group& group)
      : rows_(table.tensor()),
        loader_(NumberSource{uint64_t(table.training())},
                {.order = {.global_batch = uint64_t(options.batch),
                           .seed = options.seed,
                           .rank = group.rank(),
                           .world = group.world()},
                 .threads = 0}),
        state_(loader_.state()) {}

  const Batch* next() override {
    const auto places = loader_.next();
    state_ = loader_.state();
    if (!places) return nullptr;
    const std::vector<int64_t> index(places->begin(), places->end());
    batch_ = std::make_unique<NumberBatch>(rows_.index_select(0, at::tensor(index, at::kLong)));
    return batch_.get();
  }
  const LoaderState& state() const override { return state_; }
  void seek(const LoaderState& state) override { loader_.seek(state); }
  std::vector<uint64_t> samples(uint64_t epoch, uint64_t position) const override {
    std::vector<uint64_t> places;
    loader_.order().batch(epoch, position, places);
    return places;
  }

 private:
  at::Tensor rows_;
  Loader<NumberSource> loader_;
  LoaderState state_;
  std::unique_ptr<NumberBatch> batch_;
};

struct LinearModel : torch::nn::Module {
  LinearModel() { w = register_parameter("w", at::zeros({2}, at::kDouble)); }
  at::Tensor w;
};

class NumberTask : public Task {
 public:
  NumberTask(NumberTable table, const Config& config, Group& group)
      : table_(std::move(table)), config_(config), group_(group) {
    fingerprint_.add("numbers", hash64(std::as_bytes(std::span(table_.values))));
  }

  Config& config() override { return config_; }
  Group& group() const override { return group_; }
  torch::nn::Module& model() override { return model_; }
  std::string words() const override { return "a line through numbers"; }
  std::unique_ptr<Feed> training() override {
    return std::make_unique<NumberFeed>(table_, config_.train, group_);
  }
  at::Tensor loss(const Batch& batch, uint64_t) override {
    const at::Tensor& rows = static_cast<const NumberBatch&>(batch).rows;
    const at::Tensor noise = 1 + 0.1 * at::randn({rows.size(0), 2}, at::kDouble);
    const at::Tensor errors = (rows.narrow(1, 0, 2) * noise).mv(model_.w) - rows.select(1, 2);
    const at::Tensor count = at::full({}, double(rows.size(0)), at::kDouble);
    group_.sum(count);
    return errors.square().sum() / count * double(group_.world());
  }
  std::vector<Score> scores() const override { return {{"error", "error", false}}; }
  ValidationScores validate() override {
    const at::NoGradGuard guard;
    const at::Tensor rows = table_.tensor().narrow(0, table_.training(), table_.rows() / 4);
    const double error =
        (rows.narrow(1, 0, 2).mv(model_.w) - rows.select(1, 2)).square().mean().item<double>();
    return {{error}, {{"y", {{"count", rows.size(0)}, {"error", error}}}}};
  }
  void evaluate(const Run& run, const Note&, Progress&) override {
    if (group_.is_first())
      write_sealed_json(run.path() / "evaluation.json", {{"error", validate().values[0]}});
  }
  const Fingerprint& fingerprint() const override { return fingerprint_; }
  Json description() const override {
    return {{"numbers", {{"path", "-"}, {"fingerprint", fingerprint_.to_json()}}}};
  }
  Json checkpoint() const override { return Json::object(); }
  void resume(const Safetensors& contents, const fs::path& file) override {
    check_fingerprint(read_fingerprint(contents, file), fingerprint_, file,
                      {"table", "table", "this table"});
  }
  void check(const Run*, const Note&) override {}
  void keep(const Run&) const override {}
  Json describe(std::span<const uint64_t> samples) const override {
    Json rows = Json::array();
    for (const uint64_t row : samples) rows.push_back(table_.values[3 * row + 2]);
    return {{"y", rows}};
  }

 private:
  NumberTable table_;
  Config config_;
  Group& group_;
  LinearModel model_;
  Fingerprint fingerprint_;
};

}  // namespace lacuna
