#include "lacuna/report/grid/grid_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

constexpr std::array<Spread SummaryRow::*, 3> kGridSpreads = {
    &SummaryRow::pearson, &SummaryRow::spearman, &SummaryRow::mse};

// "graph=kept, train.lr=3e-4"; empty where nothing was varied.
std::string settings_words(const GridSummary& summary, const SummaryRow& row) {
  std::vector<std::string> words;
  for (size_t v = 0; v < row.values.size() && v < summary.keys.size(); ++v)
    words.push_back(fmt::format("{}={}", summary.keys[v], row.values[v]));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<Estimate> row_estimates(const SummaryRow& row) {
  std::vector<Estimate> estimates;
  for (const auto spread : kGridSpreads) {
    const auto& [low, high] = (row.*spread).interval;
    estimates.push_back({(row.*spread).mean, low, high});
  }
  return estimates;
}

// "0.812 ± 0.010 [0.790, 0.834]"
Cell spread_cell(const Spread& spread, const MetricField& metric) {
  if (!std::isfinite(spread.mean)) return {"<span class=\"pale\">not defined</span>", true};
  std::string html = metric_text(metric, spread.mean);
  if (std::isfinite(spread.sd)) html += fmt::format(" ± {}", metric_text(metric, spread.sd));
  if (std::isfinite(spread.interval.low))
    html += fmt::format("<br><span class=\"pale\">[{}, {}]</span>",
                        metric_text(metric, spread.interval.low),
                        metric_text(metric, spread.interval.high));
  return {html, true};
}

Cell standing_cell(const GridSummaryRow& row) {
  if (!row.row.difference)
    return {fmt::format("<span class=\"pale\">{}</span>", prose(row.row.problem)), false};
  const bool by_mse = row.judged_by == kMse.name;
  const MetricField& metric = by_mse ? kMse : kPearson;
  const Estimate judged = row.row.difference->mean.estimate(metric);
  if (!std::isfinite(judged.value)) return {escape(row.model_is), false};
  return {
      fmt::format("<span class=\"whole\">{}</span><br><span class=\"pale\">{} {} [{}, {}]</span>",
                  escape(row.model_is), metric.title, metric_text(metric, judged.value),
                  metric_text(metric, judged.low), metric_text(metric, judged.high)),
      false};
}

// What stands together: one split, part and label.
struct GridBlock {
  std::string split, part, label;
  std::vector<const GridSummaryRow*> rows;
};

std::vector<GridBlock> blocks_of(const GridSummary& summary) {
  std::vector<GridBlock> blocks;
  for (const GridSummaryRow& row : summary.rows) {
    const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const GridBlock& block) {
      return std::tie(block.split, block.part, block.label) ==
             std::tie(row.row.split, row.row.part, row.row.label);
    });
    if (same != blocks.end())
      same->rows.push_back(&row);
    else
      blocks.push_back({row.row.split, row.row.part, row.row.label, {&row}});
  }
  return blocks;
}

constexpr std::string_view kFoldsEnd =
    " folds)";  // of "gene (5 folds)", which sums up gene-1 to -5

// Whether another block sums it up: what is read first.
bool is_one_fold(const GridBlock& block, const std::vector<GridBlock>& blocks) {
  const std::string stem = block.split.substr(0, block.split.rfind('-'));
  return std::ranges::any_of(blocks, [&](const GridBlock& other) {
    return other.split.ends_with(kFoldsEnd) && other.split.starts_with(stem + " (");
  });
}

// The noise ceiling of its samples; NaN where it is not known, or not the same for all settings.
double block_ceiling(const GridBlock& block) {
  for (const GridSummaryRow* row : block.rows)
    if (row->row.ceiling != block.rows[0]->row.ceiling) return kNotDefined;
  return block.rows[0]->row.ceiling;
}

bool has_same_scores(const SummaryRow& a, const SummaryRow& b) {
  for (const auto spread : kGridSpreads) {
    const double x = (a.*spread).mean, y = (b.*spread).mean;
    if (std::isnan(x) != std::isnan(y) || (!std::isnan(x) && std::abs(x - y) > 1e-9)) return false;
  }
  return true;
}

// A row a varied setting of the model; a baseline once where settings do not change it.
std::string block_plot(const GridSummary& summary, const GridBlock& block) {
  std::vector<ForestRow> rows;
  std::vector<const GridSummaryRow*> drawn;
  for (const bool is_model : {true, false})
    for (const GridSummaryRow* row : block.rows) {
      if ((row->row.predictor == "model") != is_model) continue;
      const bool is_known =
          !is_model && std::any_of(drawn.begin(), drawn.end(), [&](const GridSummaryRow* other) {
            return other->row.predictor == row->row.predictor &&
                   has_same_scores(other->row, row->row);
          });
      if (is_known) continue;
      const bool is_first = std::none_of(drawn.begin(), drawn.end(), [&](const auto* other) {
        return other->row.predictor == row->row.predictor;
      });
      const std::string settings = settings_words(summary, row->row);
      std::string name = row->row.predictor;
      if (!settings.empty() && (is_model || !is_first)) name += ", " + settings;
      rows.push_back({name, row_estimates(row->row), is_model ? 0 : 1, is_model});
      drawn.push_back(row);
    }
  return forest_plot({.panels = metric_panels(),
                      .rows = rows,
                      .ceiling = block_ceiling(block),
                      .name_characters = 72});
}

std::string block_table(const GridSummary& summary, const GridBlock& block) {
  const bool is_varied = !summary.keys.empty();
  std::vector<TableRow> rows;
  for (const GridSummaryRow* row : block.rows) {
    TableRow line = {.cells = {text_cell(row->row.predictor)},
                     .is_strong = row->row.predictor == "model"};
    if (is_varied) line.cells.push_back(text_cell(settings_words(summary, row->row)));
    for (size_t m = 0; m < kMetrics.size(); ++m)
      line.cells.push_back(spread_cell(row->row.*kGridSpreads[m], kMetrics[m]));
    line.cells.push_back(standing_cell(*row));
    line.cells.push_back(count_cell(row->row.mse.runs));
    rows.push_back(std::move(line));
  }
  std::vector<std::string> head = {"predictor"};
  if (is_varied) head.push_back("settings");
  for (const char* name : {"Pearson", "Spearman", "mean squared error", "the model is", "runs"})
    head.push_back(name);
  return sortable_table(head, rows);
}

// Some of the samples on their own: of the model with each setting, and of the baseline that reads
// the networks.
std::string apart_table(const GridSummary& summary, const GridBlock& block) {
  static const std::map<std::string, std::string> kTitles = {
      {"pearson", "Pearson"},
      {"average_precision", "average precision"},
      {"precision_at_k", "precision at k"}};
  std::vector<const ApartSpread*> told;  // what the runs have in all, in the order of the first row
  for (const GridSummaryRow* row : block.rows)
    for (const ApartSpread& apart : row->row.apart)
      if (std::ranges::none_of(told, [&](const ApartSpread* other) {
            return other->samples == apart.samples && other->score == apart.score;
          }))
        told.push_back(&apart);
  std::vector<TableRow> rows;
  for (const ApartSpread* of : told)
    for (const GridSummaryRow* row : block.rows) {
      const bool is_model = row->row.predictor == "model";
      if (!is_model && row->row.predictor != "network") continue;
      for (const ApartSpread& apart : row->row.apart) {
        if (apart.samples != of->samples || apart.score != of->score) continue;
        const auto title = kTitles.find(apart.score);
        TableRow line = {.cells = {text_cell(apart.samples),
                                   text_cell(title == kTitles.end() ? apart.score : title->second),
                                   text_cell(row->row.predictor)},
                         .is_strong = is_model};
        if (!summary.keys.empty())
          line.cells.push_back(text_cell(settings_words(summary, row->row)));
        line.cells.push_back(spread_cell(apart.spread, kPearson));
        line.cells.push_back(count_cell(apart.spread.runs));
        rows.push_back(std::move(line));
      }
    }
  if (rows.empty()) return "";
  std::vector<std::string> head = {"samples", "score", "predictor"};
  if (!summary.keys.empty()) head.push_back("settings");
  head.insert(head.end(), {"mean", "runs"});
  return fold("Told apart: by unseen genes, by degree, and in the tails",
              note("Mean ± standard deviation over runs, and the interval of the mean, as above; "
                   "unseen: no training sample removes the gene. Not every run has samples of "
                   "every degree.") +
                  sortable_table(head, rows),
              false);
}

std::string grid_block(const GridSummary& summary, const GridBlock& block) {
  return figure(fmt::format("Split '{}', {} part, '{}'", block.split, block.part, block.label),
                block_plot(summary, block), ceiling_note(block_ceiling(block))) +
         block_table(summary, block) + apart_table(summary, block);
}

}  // namespace

std::string grid_section(const GridSummary& summary) {
  std::string out = paragraph(
      fmt::format("{} of {} runs are finished. Filled: the model; open: simple baselines, which "
                  "most seeds and settings do not change. ± is the standard deviation over runs "
                  "(seeds, folds); lines and brackets are 95% intervals of the mean, by Student's "
                  "t: over seeds, and where folds are summed up over the means of the folds, from "
                  "three on. What the model is comes from paired differences over what was held "
                  "out, in every draw averaged over the runs.",
                  summary.finished, summary.total));
  for (const RunFailure& failure : summary.failures)
    out += note(fmt::format("Run '{}' failed: {}", failure.run, failure.message));
  for (const std::string& words : summary.held_out) out += note(words + ".");
  const auto blocks = blocks_of(summary);
  if (blocks.empty()) return out + note("No run is finished yet.");
  const bool has_test = std::any_of(blocks.begin(), blocks.end(),
                                    [](const GridBlock& block) { return block.part == "test"; });
  std::string sums, singles, folds, others;
  for (const GridBlock& block : blocks) {
    const bool is_shown = block.part == "test" || !has_test;
    const bool is_sum = block.split.ends_with(kFoldsEnd);
    std::string& place = !is_shown                    ? others
                         : is_sum                     ? sums
                         : is_one_fold(block, blocks) ? folds
                                                      : singles;
    place += grid_block(summary, block);
  }
  out += sums + singles;
  if (!folds.empty()) out += fold("Fold by fold", folds, false);
  return out + (others.empty() ? "" : fold("The other parts", others, false));
}

}  // namespace lacuna::report
