#include "lacuna/run/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/compare/summary_file.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/run.h"

namespace lacuna {
namespace {

constexpr std::array<Spread SummaryRow::*, 3> kShownSpreads = {
    &SummaryRow::pearson, &SummaryRow::spearman, &SummaryRow::mse};

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

bool has_intervals(const Comparison& comparison) {
  return std::ranges::any_of(comparison.rows, [](const SummaryRow& row) {
    return std::ranges::any_of(
        kShownSpreads, [&](const auto field) { return !std::isnan((row.*field).interval.low); });
  });
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
  const bool with_intervals = has_intervals(comparison);
  for (const auto& field : kMetrics) {
    rows[0].insert(rows[0].end(), {field.title, "sd", "min", "max"});
    if (with_intervals) rows[0].push_back("95% of the mean");
  }
  if (has_ceiling) rows[0].push_back("noise ceiling");
  rows[0].insert(rows[0].end(), {"model minus it", "model is"});
  for (const auto& row : comparison.rows) {
    if (row.part != part) continue;
    std::vector<std::string> cells = {row.split};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    cells.push_back(row.part);
    if (labels.size() > 1) cells.push_back(row.label);
    cells.insert(cells.end(), {row.predictor, std::to_string(row.mse.runs)});
    for (const auto& spread_field : kShownSpreads) {
      const Spread& spread = row.*spread_field;
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        cells.push_back(text(value));
      if (with_intervals)
        cells.push_back(std::isnan(spread.interval.low)
                            ? "-"
                            : text(spread.interval.low) + " to " + text(spread.interval.high));
    }
    if (has_ceiling) cells.push_back(row.predictor == "model" ? text(row.ceiling) : "");
    cells.push_back(row.difference ? difference_text(row.difference->mean) : row.problem);
    cells.push_back(row.difference ? std::string(name(standing(row.difference->mean))) : "");
    rows.push_back(std::move(cells));
  }
  return rows;
}

}  // namespace lacuna
