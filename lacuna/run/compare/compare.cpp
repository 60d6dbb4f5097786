#include "lacuna/run/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/csv.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/run.h"

namespace lacuna {
namespace {

// The spreads of kMetrics, in their order.
constexpr std::array<Spread SummaryRow::*, 3> kSpreads = {&SummaryRow::pearson,
                                                          &SummaryRow::spearman, &SummaryRow::mse};
constexpr std::array<Spread DifferenceSpread::*, 3> kDifferenceSpreads = {
    &DifferenceSpread::pearson, &DifferenceSpread::spearman, &DifferenceSpread::mse};

// ---- the summary

// What must be the same for two runs to have met the same draws.
struct DrawsKey {
  uint64_t units = 0;
  int rounds = 0;
  std::vector<ListedFile> files;  // samples and measurements
  bool operator==(const DrawsKey&) const = default;
};

DrawsKey draws_key(const Evaluation& evaluation, const PartEvaluation& part) {
  DrawsKey key = {part.units_hash, evaluation.bootstrap, {}};
  for (const char* what : {"sample", "measured"})
    if (const auto* file =
            evaluation.files.listed(fmt::format("predictions/{}.{}.npy", part.part, what)))
      key.files.push_back(*file);
  return key;
}

// The metrics of a predictor for a label in every draw.
Draws draws_of(const PartDraws& draws, int rounds, size_t labels, size_t predictor, size_t label) {
  Draws of(size_t(rounds), Metrics{});
  for (size_t r = 0; r < of.size(); ++r)
    for (size_t m = 0; m < kMetrics.size(); ++m)
      of[r].*kMetrics[m].value =
          draws.values[((predictor * of.size() + r) * labels + label) * kMetrics.size() + m];
  return of;
}

// One row's scores, a run each.
struct Cell {
  SummaryRow row;
  std::vector<Metrics> metrics = {};
  std::vector<double> ceilings = {};
  // Of baselines: the model minus it, a run each, and the sum of that over runs in every draw.
  std::vector<Metrics> differences = {};
  Draws sums = {};
  std::map<std::string, DrawsKey> keys = {};   // by split: several where folds are summed up
  std::map<std::string, uint64_t> units = {};  // by split: that were drawn
};

// The folds that were summed up under one name.
struct FoldSet {
  uint64_t folds = 0;                          // that there are
  std::map<std::string, uint64_t> genes = {};  // by split: held out for test
};

std::vector<double> values_of(const std::vector<Metrics>& metrics, const MetricField& field) {
  std::vector<double> values;
  for (const Metrics& of : metrics) values.push_back(of.*field.value);
  return values;
}

class Summary {
 public:
  void add(const GridRun& run, const Split& split, const fs::path& path,
           const Evaluation& evaluation) {
    add_under(run.split, run, path, evaluation);
    const auto fold = fold_of(split);
    if (!fold) return;
    const std::string all = fmt::format("{} ({} folds)", fold->name, fold->folds);
    folds_[all].folds = fold->folds;
    folds_[all].genes[run.split] = fold->genes;
    add_under(all, run, path, evaluation);
  }

  std::vector<std::string> fold_words() const {
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

  // split: what its rows are called
  void add_under(const std::string& split, const GridRun& run, const fs::path& path,
                 const Evaluation& evaluation) {
    for (const auto& part : evaluation.parts) {
      const PartDraws draws = read_draws(evaluation, part);
      for (size_t l = 0; l < part.labels.size(); ++l) {
        const LabelEvaluation& label = part.labels[l];
        for (const auto& scores : label.scores) {
          Cell& of = cell(split, run.values, part.part, label.label, scores.predictor);
          of.metrics.push_back(scores.metrics);
          of.ceilings.push_back(label.ceiling);
          if (scores.predictor == "model") continue;
          of.differences.push_back(minus(label.scores[0].metrics, scores.metrics));
          add_draws(of, run.split, path, evaluation, part, draws, l);
        }
      }
    }
  }

  std::vector<SummaryRow> rows() {
    std::vector<SummaryRow> rows;
    for (auto& cell : cells_) {
      for (size_t m = 0; m < kMetrics.size(); ++m)
        cell.row.*kSpreads[m] = spread_of(values_of(cell.metrics, kMetrics[m]));
      cell.row.ceiling = spread_of(cell.ceilings).mean;
      if (cell.row.predictor != "model" && cell.row.problem.empty())
        cell.row.difference = difference_over_runs(cell);
      rows.push_back(cell.row);
    }
    // What sums up folds, below all of them.
    std::ranges::stable_partition(
        rows, [&](const SummaryRow& row) { return !folds_.contains(row.split); });
    return rows;
  }

 private:
  static void add_draws(Cell& cell, const std::string& split, const fs::path& path,
                        const Evaluation& evaluation, const PartEvaluation& part,
                        const PartDraws& draws, size_t label) {
    const auto& names = draws.predictors;
    const size_t at =
        size_t(std::find(names.begin(), names.end(), cell.row.predictor) - names.begin());
    if (evaluation.bootstrap == 0)
      cell.row.problem = "without draws (evaluate.bootstrap is 0)";
    else if (at == names.size())
      cell.row.problem = fmt::format("not computed; run `lacuna evaluate {}`", path.string());
    else if (cell.keys.contains(split) && !(cell.keys[split] == draws_key(evaluation, part)))
      cell.row.problem = "its runs were evaluated on different samples, or with different draws";
    else if (!cell.sums.empty() && cell.sums.size() != size_t(evaluation.bootstrap))
      cell.row.problem = "its runs were evaluated with different numbers of draws";
    if (!cell.row.problem.empty()) return;
    cell.keys[split] = draws_key(evaluation, part);
    cell.units[split] = part.labels[label].units;
    const auto of = [&](size_t predictor) {
      return draws_of(draws, evaluation.bootstrap, part.labels.size(), predictor, label);
    };
    const Draws model = of(0), baseline = of(at);
    cell.sums.resize(model.size());
    for (size_t r = 0; r < model.size(); ++r)
      for (const auto& field : kMetrics)
        cell.sums[r].*field.value += model[r].*field.value - baseline[r].*field.value;
  }

  static DifferenceSpread difference_over_runs(const Cell& cell) {
    DifferenceSpread result;
    for (size_t m = 0; m < kMetrics.size(); ++m) {
      result.*kDifferenceSpreads[m] = spread_of(values_of(cell.differences, kMetrics[m]));
      result.mean.value.*kMetrics[m].value = (result.*kDifferenceSpreads[m]).mean;
    }
    Draws means = cell.sums;
    for (Metrics& mean : means)
      for (const auto& field : kMetrics) mean.*field.value /= double(cell.differences.size());
    result.mean.interval = interval_of(means);
    result.mean.units = 0;
    for (const auto& [split, units] : cell.units) result.mean.units += units;
    return result;
  }

  Cell& cell(const std::string& split, const std::vector<std::string>& values,
             const std::string& part, const std::string& label, const std::string& predictor) {
    const auto key = [](const SummaryRow& row) {
      return std::tie(row.split, row.values, row.part, row.label, row.predictor);
    };
    const SummaryRow row = {split, values, part, label, predictor, {}, {}, {}};
    const auto at = std::find_if(cells_.begin(), cells_.end(),
                                 [&](const Cell& cell) { return key(cell.row) == key(row); });
    if (at != cells_.end()) return *at;
    cells_.push_back({row});
    return cells_.back();
  }

  std::vector<Cell> cells_;
  std::map<std::string, FoldSet> folds_;  // by the name that its rows have
};

void summarise(const Grid& grid, const fs::path& out, Comparison& comparison) {
  Summary summary;
  comparison.finished = 0;
  for (const auto& run : grid.runs) {
    if (state_of(out / run.name) != RunState::finished) continue;
    ++comparison.finished;
    summary.add(run, split_of(grid, run), out / run.name, read_evaluation(out / run.name));
  }
  comparison.rows = summary.rows();
  comparison.held_out = summary.fold_words();
}

Json to_json(const Spread& spread) {
  return {{"runs", spread.runs},
          {"mean", spread.mean},
          {"sd", spread.sd},
          {"min", spread.min},
          {"max", spread.max}};
}

Json to_json(const DifferenceSpread& difference) {
  Json json;
  for (size_t m = 0; m < kMetrics.size(); ++m) {
    const Interval& interval = difference.mean.interval.*kMetrics[m].interval;
    json[kMetrics[m].name] = to_json(difference.*kDifferenceSpreads[m]);
    json[kMetrics[m].name]["interval"] = {interval.low, interval.high};
  }
  json["judged_by"] = judged_by(difference.mean).name;
  json["model_is"] = name(standing(difference.mean));
  return json;
}

Json to_json(const Comparison& comparison) {
  Json failures = Json::array(), rows = Json::array();
  for (const auto& failure : comparison.failures)
    failures.push_back({{"run", failure.run}, {"message", printable(failure.message)}});
  for (const auto& row : comparison.rows) {
    Json settings = Json::object();
    for (size_t v = 0; v < row.values.size(); ++v) settings[comparison.keys[v]] = row.values[v];
    rows.push_back({{"split", row.split},
                    {"settings", settings},
                    {"part", row.part},
                    {"label", row.label},
                    {"predictor", row.predictor}});
    for (size_t m = 0; m < kMetrics.size(); ++m)
      rows.back()[kMetrics[m].name] = to_json(row.*kSpreads[m]);
    if (!std::isnan(row.ceiling)) rows.back()["noise_ceiling"] = row.ceiling;
    if (row.difference) rows.back()["difference"] = to_json(*row.difference);
    if (!row.problem.empty()) rows.back()["difference"] = {{"problem", row.problem}};
  }
  Json json = {{"format", "lacuna.summary"},
               {"version", 1},
               {"runs", {{"total", comparison.total}, {"finished", comparison.finished}}},
               {"failures", failures}};
  if (!comparison.held_out.empty()) json["held_out"] = comparison.held_out;
  json["rows"] = rows;
  return json;
}

std::string csv_number(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.9g}", value);
}

// The last five cells of a line; empty where there is no difference. What the model is stands on
// the line of the metric that it is judged by.
std::string csv_difference(const SummaryRow& row, size_t metric) {
  if (!row.difference) return ",,,,,";
  const Spread& spread = *row.difference.*kDifferenceSpreads[metric];
  const Interval& interval = row.difference->mean.interval.*kMetrics[metric].interval;
  std::string text;
  for (double value : {spread.mean, spread.sd, interval.low, interval.high})
    text += "," + csv_number(value);
  const bool is_judge = &judged_by(row.difference->mean) == &kMetrics[metric];
  return fmt::format("{},{}", text, is_judge ? name(standing(row.difference->mean)) : "");
}

// A line a metric.
std::string to_csv(const Comparison& comparison) {
  std::string text = "split";
  for (const auto& key : comparison.keys) text += "," + csv_cell(key);
  text +=
      ",part,label,predictor,metric,runs,mean,sd,min,max,difference,difference_sd,difference_low,"
      "difference_high,model_is\n";
  for (const auto& row : comparison.rows)
    for (size_t m = 0; m < kMetrics.size(); ++m) {
      const Spread& spread = row.*kSpreads[m];
      text += csv_cell(row.split);
      for (const auto& value : row.values) text += "," + csv_cell(value);
      for (const std::string& cell : {row.part, row.label, row.predictor})
        text += "," + csv_cell(cell);
      text += fmt::format(",{},{}", kMetrics[m].name, spread.runs);
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        text += "," + csv_number(value);
      text += csv_difference(row, m) + "\n";
    }
  return text;
}

void write_summary(const fs::path& out, const Comparison& comparison) {
  write_sealed_json(out / "summary.json", to_json(comparison));
  write_text_atomically(out / "summary.csv", to_csv(comparison));
}

// Runs of another split under the same name never mix: what a run keeps (kept_split.h) is compared
// with what the grid was begun with. Throws Error that names the run and the way out. False: an
// older version made the run, which keeps none.
bool check_split_of(const Grid& grid, const GridRun& run, const fs::path& directory) {
  if (!fs::exists(directory / "split.safetensors")) return false;
  check_kept_split(Run::open(directory), Screen::open(run.config.screen), split_of(grid, run));
  return true;
}

// All runs that are there, before anything is run.
void check_splits(const Grid& grid, const fs::path& out, bool knows_splits,
                  Comparison& comparison) {
  for (const auto& run : grid.runs)
    if (state_of(out / run.name) != RunState::missing &&
        !check_split_of(grid, run, out / run.name) && !knows_splits)
      comparison.notes.push_back(fmt::format(
          "whether {} was trained on split '{}' as it is now cannot be said: an older version made "
          "it, and kept no split",
          run.name, run.split));
}

std::string shown_part(const Comparison& comparison) {
  std::string part;
  for (const auto& row : comparison.rows)
    if (part != "test") part = row.part;
  return part;
}

}  // namespace

RunState state_of(const fs::path& run) {
  if (!fs::exists(run / "run.json")) return RunState::missing;
  try {
    const bool is_finished = read_run_info(run).status == "finished";
    return is_finished && fs::exists(run / "evaluation.json") ? RunState::finished
                                                              : RunState::begun;
  } catch (const Error& error) {
    throw Error("{}: damaged; delete {} to run it again ({})", (run / "run.json").string(),
                run.string(), error.what());
  }
}

Spread spread_of(const std::vector<double>& values) {
  std::vector<double> defined;
  for (double value : values)
    if (!std::isnan(value)) defined.push_back(value);
  if (defined.empty()) return {0, kNotDefined, kNotDefined, kNotDefined, kNotDefined};
  const auto [min, max] = std::minmax_element(defined.begin(), defined.end());
  const double n = double(defined.size());
  // Equal values give exactly themselves and sd 0.
  double mean = 0;
  for (double value : defined) mean += (value - *min) / n;
  mean += *min;
  double squares = 0;
  for (double value : defined) squares += (value - mean) * (value - mean);
  return {defined.size(), mean, n > 1 ? std::sqrt(squares / (n - 1)) : kNotDefined, *min, *max};
}

Comparison compare(Grid grid, const fs::path& out, const std::string& command,
                   const TrainRun& train, const RunHeard& heard, const Shard& shard) {
  read_screens(grid);
  Comparison comparison;
  check_splits(grid, out, knows_splits(out), comparison);
  claim_directory(out, grid, command);
  comparison.total = grid.runs.size();
  for (const auto& variation : grid.variations) comparison.keys.push_back(variation.key);
  for (size_t r = 0; r < grid.runs.size() && !comparison.stopped; ++r) {
    if (!shard.has(r, grid.runs.size())) continue;
    const GridRun& run = grid.runs[r];
    const RunState state = state_of(out / run.name);
    if (heard) heard(run, r, grid.runs.size(), state);
    if (state == RunState::finished) continue;
    try {
      comparison.stopped = !train(run.config, out / run.name, state == RunState::begun);
    } catch (const std::exception& error) {  // torch throws its own
      comparison.failures.push_back({run.name, error.what()});
    }
    if (!comparison.stopped) {
      const Unstoppable in_one_go;
      check_split_of(grid, run, out / run.name);  // it may have been drawn anew meanwhile
    }
    const Unstoppable whole_summary;
    summarise(grid, out, comparison);
    write_summary(out, comparison);
  }
  const Unstoppable whole_summary;
  summarise(grid, out, comparison);
  write_summary(out, comparison);
  return comparison;
}

std::vector<std::vector<std::string>> comparison_rows(const Comparison& comparison) {
  const std::string part = shown_part(comparison);
  std::set<std::string> labels;
  bool has_ceiling = false;
  for (const auto& row : comparison.rows) {
    labels.insert(row.label);
    has_ceiling = has_ceiling || (row.part == part && !std::isnan(row.ceiling));
  }
  const auto text = [](double value) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.3g}", value);
  };
  std::vector<std::vector<std::string>> rows = {{"split"}};
  for (const auto& key : comparison.keys) rows[0].push_back(key);
  rows[0].push_back("part");
  if (labels.size() > 1) rows[0].push_back("label");
  rows[0].insert(rows[0].end(), {"predictor", "runs"});
  for (const auto& field : kMetrics)
    rows[0].insert(rows[0].end(), {field.title, "sd", "min", "max"});
  if (has_ceiling) rows[0].push_back("noise ceiling");
  rows[0].insert(rows[0].end(), {"model minus it", "model is"});
  for (const auto& row : comparison.rows) {
    if (row.part != part) continue;
    std::vector<std::string> cells = {row.split};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    cells.push_back(row.part);
    if (labels.size() > 1) cells.push_back(row.label);
    cells.insert(cells.end(), {row.predictor, std::to_string(row.mse.runs)});
    for (const auto& spread_field : kSpreads) {
      const Spread& spread = row.*spread_field;
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        cells.push_back(text(value));
    }
    if (has_ceiling) cells.push_back(row.predictor == "model" ? text(row.ceiling) : "");
    cells.push_back(row.difference ? difference_text(row.difference->mean) : row.problem);
    cells.push_back(row.difference ? std::string(name(standing(row.difference->mean))) : "");
    rows.push_back(std::move(cells));
  }
  return rows;
}

}  // namespace lacuna
