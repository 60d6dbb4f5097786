#include "lacuna/run/compare/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/evaluation_file.h"

namespace lacuna {
namespace {

// The spreads of kMetrics, in their order.
constexpr std::array<Spread SummaryRow::*, 3> kScoreSpreads = {
    &SummaryRow::pearson, &SummaryRow::spearman, &SummaryRow::mse};
constexpr std::array<Spread DifferenceSpread::*, 3> kLeadSpreads = {
    &DifferenceSpread::pearson, &DifferenceSpread::spearman, &DifferenceSpread::mse};

// The metrics of a predictor for a label in every draw.
Draws draws_of(const PartDraws& draws, int rounds, size_t labels, size_t predictor, size_t label) {
  Draws of(size_t(rounds), Metrics{});
  for (size_t r = 0; r < of.size(); ++r)
    for (size_t m = 0; m < kMetrics.size(); ++m)
      of[r].*kMetrics[m].value =
          draws.values[((predictor * of.size() + r) * labels + label) * kMetrics.size() + m];
  return of;
}

std::vector<double> values_of(const std::vector<Metrics>& metrics, const MetricField& field) {
  std::vector<double> values;
  for (const Metrics& of : metrics) values.push_back(of.*field.value);
  return values;
}

// Where a group stands among those of all runs, of which one may lack it.
size_t order_of(const GroupScores& group) {
  static constexpr std::array<std::string_view, 4> kUnseen = {"none", "one", "several", "all"};
  if (group.by == "unseen genes")
    return size_t(std::ranges::find(kUnseen, group.name) - kUnseen.begin());
  size_t degree = 0;  // "10 to 29"
  for (const char c : group.name.substr(0, group.name.find(' ')))
    if (c >= '0' && c <= '9') degree = 10 * degree + size_t(c - '0');
  return 100 + degree;
}

constexpr size_t kTailsLast = 1'000'000;  // behind all groups

}  // namespace

void Summary::add(const GridRun& run, const Split& split, const fs::path& path,
                  const Evaluation& evaluation) {
  add_under(run.split, run, path, evaluation);
  const auto fold = fold_of(split);
  if (!fold) return;
  const std::string all = fmt::format("{} ({} folds)", fold->name, fold->folds);
  folds_[all].folds = fold->folds;
  folds_[all].genes[run.split] = fold->genes;
  add_under(all, run, path, evaluation);
}

std::vector<std::string> Summary::fold_words() const {
  std::vector<std::string> words;
  for (const auto& [name, set] : folds_) {
    uint64_t genes = 0;
    for (const auto& [split, count] : set.genes) genes += count;
    const bool is_whole = set.genes.size() == set.folds;
    words.push_back(fmt::format(
        "{}: {} genes were held out for test, each in one fold{}", name, with_commas(genes),
        is_whole ? "" : fmt::format("; only {} of the folds have a run yet", set.genes.size())));
  }
  return words;
}

// name: what its rows are called
void Summary::add_under(const std::string& name, const GridRun& run, const fs::path& path,
                        const Evaluation& evaluation) {
  for (const auto& part : evaluation.parts) {
    const PartDraws draws = read_draws(evaluation, part);
    for (size_t l = 0; l < part.labels.size(); ++l) {
      const LabelEvaluation& label = part.labels[l];
      for (const auto& scores : label.scores) {
        Cell& of = cell(name, run.values, part.part, label.label, scores.predictor);
        of.splits.push_back(run.split);
        of.metrics.push_back(scores.metrics);
        of.ceilings.push_back(label.ceiling);
        add_apart(of, run.split, label);
        if (scores.predictor == "model") continue;
        of.differences.push_back(minus(label.scores[0].metrics, scores.metrics));
        add_draws(of, run.split, path, evaluation, part, draws, l);
      }
    }
  }
}

void Summary::add_draws(Cell& cell, const std::string& split, const fs::path& path,
                        const Evaluation& evaluation, const PartEvaluation& part,
                        const PartDraws& draws, size_t label) {
  DrawsKey key = {part.units_hash, evaluation.bootstrap, {}};
  for (const char* what : {"sample", "measured"})
    if (const auto* file =
            evaluation.files.listed(fmt::format("predictions/{}.{}.npy", part.part, what)))
      key.files.push_back(*file);
  const auto& names = draws.predictors;
  const size_t at =
      size_t(std::find(names.begin(), names.end(), cell.row.predictor) - names.begin());
  if (evaluation.bootstrap == 0)
    cell.row.problem = "without draws (evaluate.bootstrap is 0)";
  else if (at == names.size())
    cell.row.problem = fmt::format("not computed; run `lacuna evaluate {}`", path.string());
  else if (cell.draws.contains(split) && !(cell.draws[split].key == key))
    cell.row.problem = "its runs were evaluated on different samples, or with different draws";
  else if (!cell.draws.empty() && cell.draws.begin()->second.key.rounds != evaluation.bootstrap)
    cell.row.problem = "its runs were evaluated with different numbers of draws";
  if (!cell.row.problem.empty()) return;
  const auto of = [&](size_t predictor) {
    return draws_of(draws, evaluation.bootstrap, part.labels.size(), predictor, label);
  };
  const Draws model = of(0), baseline = of(at);
  SplitDraws& here = cell.draws[split];
  here.key = std::move(key);
  here.units = part.labels[label].units;
  ++here.runs;
  here.sums.resize(model.size());
  for (size_t r = 0; r < model.size(); ++r)
    for (const auto& field : kMetrics)
      here.sums[r].*field.value += model[r].*field.value - baseline[r].*field.value;
}

// What one run says of the cell's predictor on some of its samples.
void Summary::add_apart(Cell& cell, const std::string& split, const LabelEvaluation& label) {
  const auto add = [&](const std::string& samples, const char* score, size_t order, double value) {
    const auto is_it = [&](const ApartValues& of) {
      return of.about.samples == samples && of.about.score == score;
    };
    auto at = std::ranges::find_if(cell.apart, is_it);
    if (at == cell.apart.end())
      at = cell.apart.insert(at, {.about = {samples, score}, .order = order});
    at->values.push_back(value);
    at->splits.push_back(split);
  };
  for (const GroupScores& group : label.groups)
    for (const Scores& scores : group.scores)
      if (scores.predictor == cell.row.predictor)
        add(group.words(), kPearson.name, order_of(group), scores.metrics.pearson);
  for (size_t t = 0; t < label.tails.size(); ++t)
    if (const TailScore* score = label.tails[t].find(cell.row.predictor)) {
      const std::string samples =
          fmt::format("the {} {:.0f}%", label.tails[t].tail, 100 * kTailShare);
      const size_t order = kTailsLast + 2 * t;
      add(samples, "average_precision", order, score->average_precision.value);
      add(samples, "precision_at_k", order + 1, score->precision_at_k.value);
    }
}

DifferenceSpread Summary::difference_over_runs(const Cell& cell) {
  DifferenceSpread result;
  for (size_t m = 0; m < kMetrics.size(); ++m) {
    result.*kLeadSpreads[m] = spread_of(values_of(cell.differences, kMetrics[m]), cell.splits);
    result.mean.value.*kMetrics[m].value = (result.*kLeadSpreads[m]).mean;
  }
  // Seeds are averaged within a split, splits alike.
  Draws means(cell.draws.begin()->second.sums.size(), Metrics{});
  result.mean.units = 0;
  for (const auto& [split, of] : cell.draws) {
    result.mean.units += of.units;
    for (size_t r = 0; r < means.size(); ++r)
      for (const auto& field : kMetrics)
        means[r].*field.value += of.sums[r].*field.value / double(of.runs * cell.draws.size());
  }
  result.mean.interval = interval_of(means);
  return result;
}

std::vector<SummaryRow> Summary::rows() const {
  std::vector<SummaryRow> rows;
  for (const Cell& cell : cells_) {
    SummaryRow row = cell.row;
    for (size_t m = 0; m < kMetrics.size(); ++m)
      row.*kScoreSpreads[m] = spread_of(values_of(cell.metrics, kMetrics[m]), cell.splits);
    row.ceiling = spread_of(cell.ceilings, cell.splits).mean;
    if (row.predictor != "model" && row.problem.empty())
      row.difference = difference_over_runs(cell);
    std::vector<ApartValues> apart = cell.apart;
    std::ranges::stable_sort(apart, {}, &ApartValues::order);
    for (const ApartValues& of : apart)
      row.apart.push_back({of.about.samples, of.about.score, spread_of(of.values, of.splits)});
    rows.push_back(std::move(row));
  }
  std::ranges::stable_partition(rows,
                                [&](const SummaryRow& row) { return !folds_.contains(row.split); });
  return rows;
}

Summary::Cell& Summary::cell(const std::string& name, const std::vector<std::string>& values,
                             const std::string& part, const std::string& label,
                             const std::string& predictor) {
  const auto key = [](const SummaryRow& row) {
    return std::tie(row.split, row.values, row.part, row.label, row.predictor);
  };
  const SummaryRow row = {name, values, part, label, predictor, {}, {}, {}};
  const auto at = std::find_if(cells_.begin(), cells_.end(),
                               [&](const Cell& cell) { return key(cell.row) == key(row); });
  if (at != cells_.end()) return *at;
  cells_.push_back({row});
  return cells_.back();
}

}  // namespace lacuna
