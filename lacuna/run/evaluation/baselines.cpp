#include "lacuna/run/evaluation/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/measured_samples.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

// Calls f(first, second) for all pairs of an ascending set.
template <class F>
void for_each_pair(std::span<const uint32_t> genes, F&& f) {
  for (size_t i = 0; i < genes.size(); ++i)
    for (size_t j = i + 1; j < genes.size(); ++j) f(genes[i], genes[j]);
}

// The pairs that at least two samples remove together, with effect 0. count: of all their pairs
std::vector<PairEffect> recurring_pairs(const Indicators& genes, uint64_t count) {
  std::vector<uint64_t> keys;
  keys.reserve(count);
  for (uint64_t s = 0; s < genes.size(); ++s) {
    throw_if_stopped();
    for_each_pair(genes.of(s), [&](uint32_t first, uint32_t second) {
      keys.push_back(uint64_t(first) << 32 | second);
    });
  }
  std::sort(keys.begin(), keys.end(), [](uint64_t a, uint64_t b) {
    throw_if_stopped();  // a hundred million of them take ten seconds
    return a < b;
  });
  std::vector<PairEffect> pairs;
  for (size_t i = 0, end; i < keys.size(); i = end) {
    for (end = i + 1; end < keys.size() && keys[end] == keys[i];) ++end;
    if (end - i > 1)
      pairs.push_back({uint32_t(keys[i] >> 32), uint32_t(keys[i]), uint32_t(end - i), 0});
  }
  return pairs;
}

constexpr size_t kNoPair = std::numeric_limits<size_t>::max();

size_t find_pair(const std::vector<PairEffect>& pairs, uint32_t first, uint32_t second) {
  const auto at = std::lower_bound(
      pairs.begin(), pairs.end(), std::pair(first, second),
      [](const PairEffect& a, const auto& b) { return std::pair(a.first, a.second) < b; });
  const bool found = at != pairs.end() && at->first == first && at->second == second;
  return found ? size_t(at - pairs.begin()) : kNoPair;
}

// Of the set's pairs, the one with the most training samples; kNoPair where none recurs.
size_t recurring_pair(const std::vector<PairEffect>& pairs, std::span<const uint32_t> genes) {
  size_t best = kNoPair;
  for_each_pair(genes, [&](uint32_t first, uint32_t second) {
    const size_t at = find_pair(pairs, first, second);
    if (at == kNoPair) return;
    if (best == kNoPair || pairs[at].samples > pairs[best].samples) best = at;
  });
  return best;
}

double predict_set(const Baseline& baseline, std::span<const uint32_t> genes) {
  throw_if_stopped();  // a sample may have millions of pairs, and there are many samples
  double prediction = baseline.intercept;
  if (!baseline.genes.empty())
    for (uint32_t gene : genes) prediction += baseline.genes[gene];
  if (baseline.pairs.empty()) return prediction;
  const auto add = [&](size_t pair) {
    if (pair != kNoPair) prediction += baseline.pairs[pair].effect;
  };
  if (baseline.only_recurring_pair)
    add(recurring_pair(baseline.pairs, genes));
  else
    for_each_pair(genes, [&](uint32_t first, uint32_t second) {
      add(find_pair(baseline.pairs, first, second));
    });
  return prediction;
}

// The training samples of one label, and what the fits share.
class Fitter {
 public:
  Fitter(const Samples& samples, uint32_t gene_count, const Split& split, uint64_t label,
         const BaselineNote& note, const BaselineLimits& limits, const Column* weights)
      : gene_count_(gene_count),
        label_(samples.label_names[label]),
        note_(note),
        limits_(limits),
        train_(measured_in(samples, split, Part::train, label, weights)),
        validation_(measured_in(samples, split, Part::validation, label, nullptr)) {
    if (train_.samples.empty())
      throw Error(
          "no sample in the training part of split '{}' has label '{}'{}; name another label "
          "or draw another split",
          split.name, samples.label_names[label], weights ? " and a weight above 0" : "");
    train_genes_ = gene_indicators(samples, gene_count, train_.samples);
    validation_genes_ = gene_indicators(samples, gene_count, validation_.samples);
    find_pairs();
  }

  Baseline mean() const {
    double sum = 0, total = 0;
    for (size_t s = 0; s < train_.labels.size(); ++s) {
      sum += train_.weight(s) * train_.labels[s];
      total += train_.weight(s);
    }
    return {.name = "mean", .intercept = sum / total};
  }

  std::optional<Baseline> gene() const {
    const auto fit =
        fit_ridge(train_genes_, train_.labels, 1, {}, limits_.ridge_steps, train_.weights);
    if (!fit) {
      leave_out("gene and pair", unsettled());
      return {};
    }
    Baseline baseline = from_fit("gene", *fit, {});
    baseline.note = "strength 1";
    return baseline;
  }

  bool has_pairs() const { return has_pairs_; }

  // On top of gene().
  Baseline pair(const Baseline& gene) const {
    std::vector<double> left(pairs_.size(), 0.0), counts(pairs_.size(), 0.0);
    for (uint64_t s = 0; s < train_genes_.size(); ++s) {
      throw_if_stopped();
      const size_t at = recurring_pair(pairs_, train_genes_.of(s));
      if (at == kNoPair) continue;
      left[at] += train_.weight(s) * (train_.labels[s] - predict_set(gene, train_genes_.of(s)));
      counts[at] += train_.weight(s);
    }
    Baseline baseline = gene;
    baseline.name = "pair";
    baseline.pairs = pairs_;
    baseline.only_recurring_pair = true;
    for (size_t p = 0; p < pairs_.size(); ++p) baseline.pairs[p].effect = left[p] / (counts[p] + 1);
    const auto used = std::count_if(counts.begin(), counts.end(), [](double n) { return n > 0; });
    baseline.note = fmt::format("on top of gene, {} recurring pairs", used);
    return baseline;
  }

  std::optional<Baseline> ridge() const { return best_ridge("ridge", train_genes_, {}); }

  std::optional<Baseline> ridge_pairs() const {
    Indicators x;
    x.columns = gene_count_ + uint32_t(pairs_.size());
    for (uint64_t s = 0; s < train_genes_.size(); ++s) {
      throw_if_stopped();
      const auto genes = train_genes_.of(s);
      x.column.insert(x.column.end(), genes.begin(), genes.end());
      for_each_pair(genes, [&](uint32_t first, uint32_t second) {
        const size_t at = find_pair(pairs_, first, second);
        if (at != kNoPair) x.column.push_back(gene_count_ + uint32_t(at));
      });
      x.ptr.push_back(x.column.size());
    }
    return best_ridge("ridge_pairs", x, pairs_);
  }

 private:
  void leave_out(const char* which, const std::string& why) const {
    if (note_) note_(fmt::format("left out for label '{}': {}, because {}", label_, which, why));
  }

  std::string unsettled() const {
    return fmt::format("the ridge did not settle in {} steps", with_commas(limits_.ridge_steps));
  }

  void find_pairs() {
    const uint64_t count = count_pairs(train_genes_);
    if (count <= limits_.pairs) pairs_ = recurring_pairs(train_genes_, count);
    has_pairs_ = count <= limits_.pairs && pairs_.size() <= limits_.recurring;
    if (has_pairs_) return;
    const std::string what =
        count > limits_.pairs
            ? fmt::format("{} pairs of genes, and {}", with_commas(count),
                          with_commas(limits_.pairs))
            : fmt::format("{} recurring pairs of genes, and {}", with_commas(pairs_.size()),
                          with_commas(limits_.recurring));
    leave_out("pair and ridge_pairs",
              fmt::format("the training samples have {} are the most that are looked at", what));
    pairs_ = {};
  }

  Baseline from_fit(const char* name, const RidgeFit& fit, std::vector<PairEffect> pairs) const {
    Baseline baseline = {.name = name, .intercept = fit.intercept};
    baseline.genes.assign(fit.weights.begin(), fit.weights.begin() + gene_count_);
    baseline.pairs = std::move(pairs);
    for (size_t p = 0; p < baseline.pairs.size(); ++p)
      baseline.pairs[p].effect = fit.weights[gene_count_ + p];
    return baseline;
  }

  double validation_mse(const Baseline& baseline) const {
    double squares = 0;
    for (uint64_t s = 0; s < validation_genes_.size(); ++s) {
      const double error = predict_set(baseline, validation_genes_.of(s)) - validation_.labels[s];
      squares += error * error;
    }
    return squares / double(validation_genes_.size());
  }

  // x: the genes' columns first, then the pairs'.
  std::optional<Baseline> best_ridge(const char* name, const Indicators& x,
                                     const std::vector<PairEffect>& pairs) const {
    if (validation_.samples.empty()) {
      const auto fit = fit_ridge(x, train_.labels, kDefaultRidgeStrength, {}, limits_.ridge_steps,
                                 train_.weights);
      if (!fit) {
        leave_out(name, unsettled());
        return {};
      }
      Baseline only = from_fit(name, *fit, pairs);
      only.note = fmt::format("strength {}, the default: no validation sample has the label",
                              kDefaultRidgeStrength);
      return only;
    }
    std::optional<Baseline> best;
    size_t settled = 0;
    double best_mse = std::numeric_limits<double>::infinity();
    std::vector<double> start;
    for (double strength : kRidgeStrengths) {
      auto fit = fit_ridge(x, train_.labels, strength, start, limits_.ridge_steps, train_.weights);
      if (!fit) continue;
      ++settled;
      Baseline candidate = from_fit(name, *fit, pairs);
      const double mse = validation_mse(candidate);
      if (mse < best_mse) {
        best = std::move(candidate);
        best->note = fmt::format("strength {}", strength);
        best_mse = mse;
      }
      start = std::move(fit->weights);
    }
    if (!best)
      leave_out(name, unsettled());
    else
      best->note +=
          fmt::format(", the best of {} on validation{}", settled,
                      settled == kRidgeStrengths.size() ? "" : "; the others did not settle");
    return best;
  }

  uint32_t gene_count_;
  std::string label_;
  const BaselineNote& note_;
  BaselineLimits limits_;
  MeasuredSamples train_, validation_;
  Indicators train_genes_, validation_genes_;
  std::vector<PairEffect> pairs_;
  bool has_pairs_ = false;
};

}  // namespace

std::vector<float> Baseline::predict(const Samples& samples,
                                     std::span<const uint64_t> chosen) const {
  const uint32_t any_gene = std::numeric_limits<uint32_t>::max();
  GeneSets sets(samples, genes.empty() ? any_gene : uint32_t(genes.size()));
  std::vector<float> predictions;
  predictions.reserve(chosen.size());
  for (uint64_t sample : chosen)
    predictions.push_back(float(predict_set(*this, sets.read(sample))));
  return predictions;
}

std::vector<Baseline> fit_baselines(const Samples& samples, uint32_t gene_count, const Split& split,
                                    uint64_t label, const BaselineNote& note,
                                    const BaselineLimits& limits, const Column* weights) {
  LACUNA_ASSERT(label < samples.label_count() && split.parts.size() == samples.size());
  const Fitter fitter(samples, gene_count, split, label, note, limits, weights);
  std::vector<Baseline> fitted = {fitter.mean()};
  if (const auto gene = fitter.gene()) {
    fitted.push_back(*gene);
    if (fitter.has_pairs()) fitted.push_back(fitter.pair(*gene));
  }
  if (auto ridge = fitter.ridge()) fitted.push_back(std::move(*ridge));
  if (!fitter.has_pairs()) return fitted;
  if (auto ridge = fitter.ridge_pairs()) fitted.push_back(std::move(*ridge));
  return fitted;
}

}  // namespace lacuna
