#include "lacuna/run/evaluation/network/network_baseline.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/measured_samples.h"
#include "lacuna/run/evaluation/metrics.h"
#include "lacuna/run/evaluation/network/column_ridge.h"
#include "lacuna/run/evaluation/network/pair_features.h"

namespace lacuna {
namespace {

void append(Indicators& all, const Indicators& more) {
  for (uint64_t s = 0; s < more.size(); ++s) {
    all.column.insert(all.column.end(), more.of(s).begin(), more.of(s).end());
    all.ptr.push_back(all.column.size());
  }
}

// Weighted, of the training labels.
struct Scale {
  double mean = 0, sd = 0;
};

Scale scale_of(const MeasuredSamples& train) {
  double total = 0, sum = 0, squares = 0;
  for (size_t s = 0; s < train.labels.size(); ++s) {
    total += train.weight(s);
    sum += train.weight(s) * train.labels[s];
  }
  const double mean = sum / total;
  for (size_t s = 0; s < train.labels.size(); ++s)
    squares += train.weight(s) * (train.labels[s] - mean) * (train.labels[s] - mean);
  const double sd = std::sqrt(squares / total);
  return {mean, sd > 0 ? sd : 1};
}

class NetworkFitter {
 public:
  explicit NetworkFitter(const NetworkRequest& request)
      : request_(request),
        genes_(uint32_t(request.ridge.genes.size())),
        train_(measured_in(request.samples, request.split, Part::train, request.label,
                           request.weights)),
        validation_(
            measured_in(request.samples, request.split, Part::validation, request.label, nullptr)),
        scale_(scale_of(train_)) {
    LACUNA_ASSERT(!train_.samples.empty() && !request.networks.empty());
    sets_ = gene_indicators(request.samples, genes_, train_.samples);
    append(sets_, gene_indicators(request.samples, genes_, validation_.samples));
    for (const auto chosen : request.chosen)
      append(sets_, gene_indicators(request.others, genes_, chosen));
  }

  uint64_t pairs() const { return count_pairs(sets_); }

  NetworkPredictions predict(Progress& progress, int threads) {
    find_columns(progress, threads);
    NetworkPredictions result;
    const std::optional<ColumnRidge::Fit> fit = best_fit(threads, result.note);
    uint64_t s = train_.samples.size() + validation_.samples.size();
    for (const auto chosen : request_.chosen) {
      std::vector<float>& predicted = result.predicted.emplace_back();
      for (size_t i = 0; i < chosen.size(); ++i, ++s)
        predicted.push_back(float(scale_.mean + scale_.sd * value(fit, s)));
    }
    return result;
  }

 private:
  bool has_pair(uint64_t s) const { return sets_.of(s).size() > 1; }

  // In units of the label's scale, without its mean.
  double offset(uint64_t s) const {
    double sum = request_.ridge.intercept - scale_.mean;
    for (const uint32_t gene : sets_.of(s)) sum += request_.ridge.genes[gene];
    return sum / scale_.sd;
  }

  double value(const std::optional<ColumnRidge::Fit>& fit, uint64_t s) const {
    return fit && has_pair(s) ? fit->predict(row(s)) : offset(s);
  }

  std::span<const float> row(uint64_t s) const { return {x_.data() + s * columns_, columns_}; }

  // x_: offsets, then what the networks say of the pairs
  void find_columns(Progress& progress, int threads) {
    TrainingResiduals training;
    training.is_seen.assign(genes_, false);
    for (uint64_t s = 0; s < train_.samples.size(); ++s) {
      training.residual.push_back((train_.labels[s] - scale_.mean) / scale_.sd - offset(s));
      training.weight.push_back(train_.weight(s));
      for (const uint32_t gene : sets_.of(s)) training.is_seen[gene] = true;
    }
    for (const double effect : request_.ridge.genes) training.effect.push_back(effect / scale_.sd);
    const PairFeatures pairs = pair_features(request_.networks, sets_, training, progress, threads);
    columns_ = pairs.columns + 1;
    x_.reserve(sets_.size() * columns_);
    for (uint64_t s = 0; s < sets_.size(); ++s) {
      double sum = offset(s);
      for (const uint32_t gene : sets_.of(s)) sum += pairs.neighbours_effect[gene];
      x_.push_back(float(sum));
      const float* values = pairs.values.data() + s * pairs.columns;
      x_.insert(x_.end(), values, values + pairs.columns);
    }
  }

  // Nothing where no training sample removes two genes.
  std::optional<ColumnRidge::Fit> best_fit(int threads, std::string& note) const {
    std::vector<float> x;
    std::vector<double> y, weights;
    for (uint64_t s = 0; s < train_.samples.size(); ++s) {
      if (!has_pair(s)) continue;
      x.insert(x.end(), row(s).begin(), row(s).end());
      y.push_back((train_.labels[s] - scale_.mean) / scale_.sd);
      weights.push_back(train_.weight(s));
    }
    if (y.empty()) {
      note = "offsets alone: no training sample removes two genes";
      return {};
    }
    const ColumnRidge ridge(x, columns_, y, weights, 1, threads);
    std::optional<ColumnRidge::Fit> best;
    double best_pearson = -INFINITY;
    for (const double strength : kNetworkStrengths) {
      ColumnRidge::Fit fit = ridge.fit(strength);
      const double pearson = validation_pearson(fit);
      if (!(pearson > best_pearson)) continue;
      best_pearson = pearson;
      best = std::move(fit);
      note = fmt::format("strength {}, the best of {} on validation", strength,
                         kNetworkStrengths.size());
    }
    if (best) return best;
    note = fmt::format("strength {}, the default: validation has no correlation to choose by",
                       kDefaultNetworkStrength);
    return ridge.fit(kDefaultNetworkStrength);
  }

  double validation_pearson(const ColumnRidge::Fit& fit) const {
    std::vector<float> predicted, measured;
    for (uint64_t i = 0; i < validation_.samples.size(); ++i) {
      const uint64_t s = train_.samples.size() + i;
      if (!has_pair(s)) continue;
      predicted.push_back(float(fit.predict(row(s))));
      measured.push_back(float(validation_.labels[i]));
    }
    return compute_metrics(predicted, measured).pearson;
  }

  const NetworkRequest& request_;
  uint32_t genes_;
  MeasuredSamples train_, validation_;
  Scale scale_;
  Indicators sets_;  // [S] of train, validation, then each of `chosen`
  size_t columns_ = 0;
  std::vector<float> x_;  // [S, columns]
};

}  // namespace

std::optional<NetworkPredictions> network_baseline(const NetworkRequest& request,
                                                   const BaselineNote& note, Progress& progress,
                                                   uint64_t most_pairs, int threads) {
  NetworkFitter fitter(request);
  if (fitter.pairs() <= most_pairs) return fitter.predict(progress, threads);
  if (note)
    note(fmt::format(
        "left out for label '{}': network, because the samples have {} pairs of genes, and {} are "
        "the most that are looked at",
        request.samples.label_names[request.label], with_commas(fitter.pairs()),
        with_commas(most_pairs)));
  return {};
}

}  // namespace lacuna
