// Ops that need a statistic of many rows before the first of them. Rows that are not finite are
// left out of it.
#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/recording/transforms/transform_op.h"

namespace lacuna {
namespace {

// (x - shift) / divide
class StatisticOp : public TransformOp {
 public:
  OpKind kind() const override { return OpKind::whole_segment; }
  void apply(const RowBlock& in, RowBlock& out, const OpStatistic& statistic) const override {
    const uint64_t columns = out.columns();
    const bool is_one = statistic.divide.size() == 1;
    for (uint64_t t = out.first; t < out.first + out.count; ++t)
      for (uint64_t c = 0; c < columns; ++c) {
        const size_t s = is_one ? 0 : c;
        out.at(t)[c] = (in.at(t)[c] - statistic.shift[s]) / statistic.divide[s];
      }
  }
};

class MaxNormOp : public StatisticOp {
 public:
  std::unique_ptr<Learner> learner(const Shape&) const override {
    struct Largest : Learner {
      float largest = 0;
      void add(const float* row, uint64_t columns) override {
        for (uint64_t c = 0; c < columns; ++c)
          if (std::isfinite(row[c])) largest = std::max(largest, std::abs(row[c]));
      }
      OpStatistic finish() const override { return {{0.0f}, {largest > 0 ? largest : 1.0f}}; }
    };
    return std::make_unique<Largest>();
  }
};

class StandardiseOp : public StatisticOp {
 public:
  std::unique_ptr<Learner> learner(const Shape&) const override {
    struct Moments : Learner {  // Welford's, column by column
      std::vector<double> mean, square, count;
      void add(const float* row, uint64_t columns) override {
        mean.resize(columns, 0.0);
        square.resize(columns, 0.0);
        count.resize(columns, 0.0);
        for (uint64_t c = 0; c < columns; ++c) {
          if (!std::isfinite(row[c])) continue;
          const double step = double(row[c]) - mean[c];
          mean[c] += step / ++count[c];
          square[c] += step * (double(row[c]) - mean[c]);
        }
      }
      OpStatistic finish() const override {
        OpStatistic statistic;
        for (size_t c = 0; c < mean.size(); ++c) {
          const double sd = count[c] > 0 ? std::sqrt(square[c] / count[c]) : 0;
          statistic.shift.push_back(float(mean[c]));
          statistic.divide.push_back(sd > 0 ? float(sd) : 1.0f);
        }
        return statistic;
      }
    };
    return std::make_unique<Moments>();
  }
};

}  // namespace

void check_statistic_settings(const OpSettings& settings, const std::string& name) {
  const std::string over = settings.text("over", "segment"), rows = settings.text("rows", "train");
  if (over != "segment" && over != "session" && over != "recording")
    throw Error("transform {}: over {}; use segment, session or recording", name, over);
  if (rows != "train" && rows != "all")
    throw Error("transform {}: rows {}; use train or all", name, rows);
  settings.text("split", "");
}

std::unique_ptr<TransformOp> make_statistic_op(const std::string& name, const Json& json) {
  if (name != "max_norm" && name != "standardise") return nullptr;
  check_statistic_settings(OpSettings(name, json, {"over", "rows", "split"}), name);
  if (name == "max_norm") return std::make_unique<MaxNormOp>();
  return std::make_unique<StandardiseOp>();
}

}  // namespace lacuna
