#include "lacuna/report/grid/grid_section.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lacuna::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GridSection, DrawsABaselineOnceWhereSettingsDoNotChangeIt) {
  GridSummary summary = {.finished = 6, .total = 6, .keys = {"graph"}};
  for (const char* value : {"kept", "shuffled"})
    for (const char* predictor : {"model", "ridge"}) {
      GridSummaryRow row;
      row.row = {"pair", {value}, "test", "label", predictor, {}, {}, {}};
      const double pearson = predictor == std::string("ridge") ? 0.5 : value[0] == 'k' ? 0.9 : 0.4;
      row.row.pearson = {.runs = 3, .mean = pearson, .sd = 0.01, .min = 0, .max = 1};
      row.row.pearson.interval = {pearson - 0.03, pearson + 0.03};  // as the summary has it
      row.row.spearman = row.row.mse = row.row.pearson;
      row.row.ceiling = 0.95;
      if (predictor == std::string("ridge")) row.model_is = "ahead";
      summary.rows.push_back(row);
    }
  const std::string html = grid_section(summary);
  EXPECT_THAT(html, HasSubstr(">model, graph=kept</text>"));
  EXPECT_THAT(html, HasSubstr(">model, graph=shuffled</text>"));
  EXPECT_THAT(html, HasSubstr(">ridge</text>"));
  EXPECT_THAT(html, Not(HasSubstr(">ridge, graph=shuffled</text>")));
  EXPECT_THAT(html, HasSubstr("0.900 ± 0.010<br><span class=\"pale\">[0.870, 0.930]</span>"));
  EXPECT_THAT(html, HasSubstr("<title>noise ceiling: 0.95</title>"));
  EXPECT_THAT(html, HasSubstr("Noise ceiling of Pearson: 0.950."));
  summary.rows[1].row.pearson = {.runs = 0, .mean = NAN, .sd = NAN, .min = NAN, .max = NAN};
  EXPECT_THAT(grid_section(summary), HasSubstr("not defined"));
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("\">0</td>")));  // it ran, all the same
  summary.rows[0].row.ceiling = 0.9;  // the settings differ in their samples: no line for all
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("oise ceiling")));
}

TEST(GridSection, WhatSumsUpFoldsComesFirstAndTheFoldsAreFoldedAway) {
  GridSummary summary = {.finished = 3, .total = 3};
  for (const char* split : {"gene-1", "gene-2", "random", "gene (2 folds)"}) {
    GridSummaryRow row;
    row.row = {split, {}, "test", "label", "model", {}, {}, {}};
    summary.rows.push_back(row);
  }
  const std::string html = grid_section(summary);
  const auto at = [&](const char* words) { return html.find(words); };
  EXPECT_LT(at("gene (2 folds)"), at("random"));
  EXPECT_LT(at("random"), at("Fold by fold"));
  EXPECT_LT(at("Fold by fold"), at("gene-1"));
  EXPECT_NE(at("gene-2"), std::string::npos);
  summary.rows.pop_back();
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("Fold by fold")));
}

// Told apart by groups and tails: the model and network, not the other baselines.
TEST(GridSection, TellsSomeSamplesApart) {
  GridSummary summary = {.finished = 3, .total = 3};
  for (const char* predictor : {"model", "ridge", "network"}) {
    GridSummaryRow row;
    row.row = {"gene (3 folds)", {}, "test", "label", predictor, {}, {}, {}};
    const double value = predictor == std::string("model") ? 0.4 : 0.3;
    row.row.apart = {{"one gene unseen", "pearson", {3, value, 0.02, 0.1, 0.9, {0.25, 0.55}}},
                     {"the lowest 5%", "average_precision", {3, value + 0.1, 0.02, 0.1, 0.9}}};
    summary.rows.push_back(row);
  }
  const std::string html = grid_section(summary);
  EXPECT_THAT(html, HasSubstr("<td>one gene unseen</td><td>Pearson</td><td>network</td>"));
  EXPECT_THAT(html, HasSubstr("0.400 ± 0.020<br><span class=\"pale\">[0.250, 0.550]</span>"));
  EXPECT_THAT(html, HasSubstr("<td>the lowest 5%</td><td>average precision</td><td>model</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<td>Pearson</td><td>ridge</td>")));
  for (GridSummaryRow& row : summary.rows) row.row.apart.clear();
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("Told apart")));
}

}  // namespace
}  // namespace lacuna::report
