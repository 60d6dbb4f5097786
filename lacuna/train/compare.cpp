#include "lacuna/train/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "lacuna/core/csv.h"
#include "lacuna/core/error.h"
#include "lacuna/core/printable.h"
#include "lacuna/core/seal.h"
#include "lacuna/train/evaluation.h"
#include "lacuna/train/kept_split.h"
#include "lacuna/train/run.h"

namespace lacuna {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct MetricField {
  const char* name;
  const char* title;
  double Metrics::*value;
  Spread SummaryRow::*spread;
};
constexpr std::array<MetricField, 3> kMetrics = {
    {{"pearson", "Pearson", &Metrics::pearson, &SummaryRow::pearson},
     {"spearman", "Spearman", &Metrics::spearman, &SummaryRow::spearman},
     {"mse", "MSE", &Metrics::mse, &SummaryRow::mse}}};

Json read_run_json(const fs::path& run) {
  const fs::path path = run / "run.json";
  std::string damage = "it is no JSON object";
  try {
    if (const Json json = read_sealed_json(path).json; json.is_object()) return json;
  } catch (const Error& error) {
    damage = error.what();
  }
  throw Error("{}: damaged; delete {} to run it again ({})", path.string(), run.string(), damage);
}

// ---- the summary

// One row's scores, a run each.
struct Cell {
  SummaryRow row;
  std::vector<Metrics> metrics;
};

class Summary {
 public:
  void add(const GridRun& run, const Evaluation& evaluation) {
    for (const auto& part : evaluation.parts)
      for (const auto& label : part.labels)
        for (const auto& scores : label.scores)
          cell(run, part.part, label.label, scores.predictor).metrics.push_back(scores.metrics);
  }

  std::vector<SummaryRow> rows() {
    std::vector<SummaryRow> rows;
    for (auto& cell : cells_) {
      for (const auto& field : kMetrics) {
        std::vector<double> values;
        for (const auto& metrics : cell.metrics) values.push_back(metrics.*field.value);
        cell.row.*field.spread = spread_of(values);
      }
      rows.push_back(cell.row);
    }
    return rows;
  }

 private:
  Cell& cell(const GridRun& run, const std::string& part, const std::string& label,
             const std::string& predictor) {
    const auto key = [](const SummaryRow& row) {
      return std::tie(row.split, row.values, row.part, row.label, row.predictor);
    };
    const SummaryRow row = {run.split, run.values, part, label, predictor, {}, {}, {}};
    const auto at = std::find_if(cells_.begin(), cells_.end(),
                                 [&](const Cell& cell) { return key(cell.row) == key(row); });
    if (at != cells_.end()) return *at;
    cells_.push_back({row, {}});
    return cells_.back();
  }

  std::vector<Cell> cells_;
};

void summarise(const Grid& grid, const fs::path& out, Comparison& comparison) {
  Summary summary;
  comparison.finished = 0;
  for (const auto& run : grid.runs) {
    if (state_of(out / run.name) != RunState::finished) continue;
    ++comparison.finished;
    summary.add(run, read_evaluation(out / run.name));
  }
  comparison.rows = summary.rows();
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
    for (const auto& field : kMetrics) {
      const Spread& spread = row.*field.spread;
      rows.back()[field.name] = {{"runs", spread.runs},
                                 {"mean", spread.mean},
                                 {"sd", spread.sd},
                                 {"min", spread.min},
                                 {"max", spread.max}};
    }
  }
  return {{"format", "lacuna.summary"},
          {"version", 1},
          {"runs", {{"total", comparison.total}, {"finished", comparison.finished}}},
          {"failures", failures},
          {"rows", rows}};
}

std::string csv_number(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.9g}", value);
}

// A line a metric.
std::string to_csv(const Comparison& comparison) {
  std::string text = "split";
  for (const auto& key : comparison.keys) text += "," + csv_cell(key);
  text += ",part,label,predictor,metric,runs,mean,sd,min,max\n";
  for (const auto& row : comparison.rows)
    for (const auto& field : kMetrics) {
      const Spread& spread = row.*field.spread;
      text += csv_cell(row.split);
      for (const auto& value : row.values) text += "," + csv_cell(value);
      for (const std::string& cell : {row.part, row.label, row.predictor})
        text += "," + csv_cell(cell);
      text += fmt::format(",{},{}", field.name, spread.runs);
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        text += "," + csv_number(value);
      text += "\n";
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
  const Json json = read_run_json(run);
  const bool finished = json.contains("status") && json["status"] == "finished";
  return finished && fs::exists(run / "evaluation.json") ? RunState::finished : RunState::begun;
}

Spread spread_of(const std::vector<double>& values) {
  std::vector<double> defined;
  for (double value : values)
    if (!std::isnan(value)) defined.push_back(value);
  if (defined.empty()) return {0, kNan, kNan, kNan, kNan};
  const auto [min, max] = std::minmax_element(defined.begin(), defined.end());
  const double n = double(defined.size());
  // Equal values give exactly themselves and sd 0.
  double mean = 0;
  for (double value : defined) mean += (value - *min) / n;
  mean += *min;
  double squares = 0;
  for (double value : defined) squares += (value - mean) * (value - mean);
  return {defined.size(), mean, n > 1 ? std::sqrt(squares / (n - 1)) : kNan, *min, *max};
}

Comparison compare(Grid grid, const fs::path& out, const std::string& command,
                   const TrainRun& train, const RunHeard& heard) {
  look_at_screens(grid);
  Comparison comparison;
  check_splits(grid, out, knows_splits(out), comparison);
  claim_directory(out, grid, command);
  comparison.total = grid.runs.size();
  for (const auto& variation : grid.variations) comparison.keys.push_back(variation.key);
  for (size_t r = 0; r < grid.runs.size() && !comparison.stopped; ++r) {
    const GridRun& run = grid.runs[r];
    const RunState state = state_of(out / run.name);
    if (heard) heard(run, r, grid.runs.size(), state);
    if (state == RunState::finished) continue;
    try {
      comparison.stopped = !train(run.config, out / run.name, state == RunState::begun);
    } catch (const std::exception& error) {  // torch throws its own
      comparison.failures.push_back({run.name, error.what()});
    }
    check_split_of(grid, run, out / run.name);  // it may have been drawn anew meanwhile
    summarise(grid, out, comparison);
    write_summary(out, comparison);
  }
  summarise(grid, out, comparison);
  write_summary(out, comparison);
  return comparison;
}

std::vector<std::vector<std::string>> comparison_rows(const Comparison& comparison) {
  const std::string part = shown_part(comparison);
  std::set<std::string> labels;
  for (const auto& row : comparison.rows) labels.insert(row.label);
  std::vector<std::vector<std::string>> rows = {{"split"}};
  for (const auto& key : comparison.keys) rows[0].push_back(key);
  rows[0].push_back("part");
  if (labels.size() > 1) rows[0].push_back("label");
  rows[0].insert(rows[0].end(), {"predictor", "runs"});
  for (const auto& field : kMetrics)
    rows[0].insert(rows[0].end(), {field.title, "sd", "min", "max"});
  for (const auto& row : comparison.rows) {
    if (row.part != part) continue;
    std::vector<std::string> cells = {row.split};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    cells.push_back(row.part);
    if (labels.size() > 1) cells.push_back(row.label);
    cells.insert(cells.end(), {row.predictor, std::to_string(row.mse.runs)});
    for (const auto& field : kMetrics) {
      const Spread& spread = row.*field.spread;
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        cells.push_back(std::isnan(value) ? "-" : fmt::format("{:.3g}", value));
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

}  // namespace lacuna
