#include "lacuna/report/grid/grid_section.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lacuna::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MeanOfRuns, HasStudentsInterval) {
  // Of 1, 2, 3, 4, 5: mean 3, sd 1.5811; t of four degrees of freedom is 2.776.
  const Estimate five =
      mean_of_runs({.runs = 5, .mean = 3, .sd = std::sqrt(2.5), .min = 1, .max = 5});
  EXPECT_NEAR(five.low, 3 - 2.776 * std::sqrt(0.5), 1e-3);
  EXPECT_NEAR(five.high, 3 + 2.776 * std::sqrt(0.5), 1e-3);
  EXPECT_TRUE(std::isnan(mean_of_runs({.runs = 2, .mean = 3, .sd = 1, .min = 2, .max = 4}).low));
  EXPECT_TRUE(std::isnan(mean_of_runs({.runs = 5, .mean = 3, .sd = 0, .min = 3, .max = 3}).low));
}

TEST(GridSection, DrawsABaselineOnceWhereSettingsDoNotChangeIt) {
  GridSummary summary = {.finished = 6, .total = 6, .keys = {"graph"}};
  for (const char* value : {"kept", "shuffled"})
    for (const char* predictor : {"model", "ridge"}) {
      GridSummaryRow row;
      row.row = {"pair", {value}, "test", "label", predictor, {}, {}, {}};
      const double pearson = predictor == std::string("ridge") ? 0.5 : value[0] == 'k' ? 0.9 : 0.4;
      row.row.pearson = {.runs = 3, .mean = pearson, .sd = 0.01, .min = 0, .max = 1};
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
  EXPECT_THAT(html, HasSubstr("0.900 ± 0.010"));
  EXPECT_THAT(html, HasSubstr("<title>noise ceiling: 0.95</title>"));
  EXPECT_THAT(html, HasSubstr("Noise ceiling of Pearson: 0.950."));
  summary.rows[1].row.pearson = {.runs = 0, .mean = NAN, .sd = NAN, .min = NAN, .max = NAN};
  EXPECT_THAT(grid_section(summary), HasSubstr("not defined"));
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("\">0</td>")));  // it ran, all the same
  summary.rows[0].row.ceiling = 0.9;  // the settings differ in their samples: no line for all
  EXPECT_THAT(grid_section(summary), Not(HasSubstr("oise ceiling")));
}

}  // namespace
}  // namespace lacuna::report
