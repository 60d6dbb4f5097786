#include "lacuna/report/charts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/svg.h"

namespace lacuna::report {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Every attribute value and text is free of "nan" and "inf", and tags are balanced.
void expect_sound(const std::string& svg) {
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  for (const std::string tag : {"svg", "g", "text", "title"})
    EXPECT_EQ(count(svg, "<" + tag + ">") + count(svg, "<" + tag + " "),
              count(svg, "</" + tag + ">"))
        << tag;
}

TEST(LineChart, CarriesEveryFiniteValueForHover) {
  const std::string svg = line_chart(
      {.x_label = "step", .y_label = "loss", .series = {{"a<b", {1, 2, 3}, {0.5, kNaN, 0.25}, 0}}});
  expect_sound(svg);
  EXPECT_THAT(svg, HasSubstr("data-x=\"1 3\" data-y=\"0.5 0.25\""));
  EXPECT_THAT(svg, HasSubstr("data-n=\"a&lt;b\""));
  EXPECT_THAT(svg, HasSubstr("<title>a&lt;b: last 0.25, lowest 0.25, highest 0.5</title>"));
  // The gap is not drawn over: two starts.
  std::smatch path;
  ASSERT_TRUE(std::regex_search(svg, path, std::regex("class=\"s0 d0\" d=\"([^\"]*)\"")));
  EXPECT_EQ(count(path[1], "M"), 2u);
  EXPECT_EQ(count(path[1], "L"), 0u);
}

TEST(LineChart, DrawsOnePointAndNothingAtAll) {
  expect_sound(line_chart({.x_label = "x", .y_label = "y", .series = {{"one", {5}, {7}, 0}}}));
  EXPECT_THAT(line_chart({.x_label = "x", .y_label = "y", .series = {{"none", {1}, {kNaN}, 0}}}),
              HasSubstr("nothing to draw"));
}

TEST(Thinned, KeepsTheExtremesOfEveryStretchAndTheEnds) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  Series series = {.name = "noise", .x = {}, .y = {}, .colour = 2};
  const size_t points = 5000 + random.below(5000);
  for (size_t i = 0; i < points; ++i) {
    series.x.push_back(double(i));
    series.y.push_back(random.below(50) == 0 ? kNaN : random.normal());
  }
  series.y[random.below(points)] = 1e6;  // a spike that must be seen
  const Series thin = thinned(series, 1000);
  EXPECT_LE(thin.x.size(), 1000u);
  EXPECT_EQ(thin.x.front(), 0);
  EXPECT_EQ(thin.x.back(), double(points - 1));
  EXPECT_TRUE(std::is_sorted(thin.x.begin(), thin.x.end()));
  Range before, after;
  for (const double y : series.y) before.add(y);
  for (const double y : thin.y) after.add(y);
  EXPECT_EQ(after.low, before.low);
  EXPECT_EQ(after.high, before.high);
  for (size_t i = 0; i < thin.x.size(); ++i) {  // points of the series, not new ones
    const double y = series.y[size_t(thin.x[i])];
    EXPECT_TRUE(thin.y[i] == y || (std::isnan(thin.y[i]) && std::isnan(y)));
  }
  EXPECT_EQ(thinned({.name = "", .x = {1, 2}, .y = {3, 4}}, 1000).x.size(), 2u);
}

TEST(Histogram, HasABarForEveryBinThatHoldsSomething) {
  const std::string svg = histogram({.x_label = "label",
                                     .y_label = "samples",
                                     .edges = {0, 1, 2, 3},
                                     .counts = {4, 0, 1200},
                                     .unit = "samples"});
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<rect"), 2u);
  EXPECT_THAT(svg, HasSubstr("<title>2 to 3: 1,200 samples</title>"));
}

TEST(HeatMap, ColoursByTheLogarithmOfTheCount) {
  HeatMap map = {.x_label = "measured",
                 .y_label = "predicted",
                 .x_low = -1,
                 .x_high = 1,
                 .y_low = -1,
                 .y_high = 1,
                 .bins = 2,
                 .counts = {1, 0, 100, 10000},
                 .unit = "samples"};
  const std::string svg = heat_map(map);
  expect_sound(svg);
  EXPECT_THAT(svg, HasSubstr("measured -1 to 0, predicted -1 to 0: 1 samples"));
  EXPECT_THAT(svg, HasSubstr("measured -1 to 0, predicted 0 to 1: 100 samples"));
  EXPECT_THAT(svg, HasSubstr("measured 0 to 1, predicted 0 to 1: 10,000 samples"));
  std::vector<std::string> levels;
  const std::regex cell("<rect class=\"h(.)\"[^/]*><title>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), cell), end; it != end; ++it)
    levels.push_back((*it)[1]);
  EXPECT_EQ(levels, (std::vector<std::string>{"1", "5", "9"}));
  EXPECT_EQ(count(svg, "class=\"fit\""), 0u);
  map.counts = {0, 0, 0, 1};
  expect_sound(heat_map(map));
}

TEST(HeatMap, DrawsLinesWithinItsAxes) {
  HeatMap map = {.x_label = "measured",
                 .y_label = "predicted",
                 .x_low = 0,
                 .x_high = 4,
                 .y_low = 0,
                 .y_high = 1,
                 .slope = 0.25,
                 .bins = 1,
                 .counts = {1},
                 .unit = "samples"};
  // The plot is 340 pixels wide and high, from (58, 366) on: the diagonal leaves it at a quarter.
  std::string svg = heat_map(map);
  EXPECT_THAT(svg, HasSubstr("class=\"guide\" d=\"M58 366L143 26\""));
  EXPECT_THAT(svg, HasSubstr("class=\"fit\" d=\"M58 366L398 26\""));
  map.slope = 0;
  map.offset = 2;  // above the plot
  svg = heat_map(map);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "class=\"fit\""), 0u);
}

TEST(ForestPlot, DrawsIntervalsAndSaysWhatIsNotDefined) {
  const std::string svg =
      forest_plot({{"Pearson"},
                   {{"model", {{0.5, 0.4, 0.6}}, 0, true},
                    {"mean", {{kNaN, kNaN, kNaN}}, 1, false},
                    {"no interval", {{0.3, kNaN, kNaN}}, 1, false},
                    {"a \"name\" that is much longer than its place in a picture",
                     {{0.1, 0, 0.2}},
                     1,
                     false}}});
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<circle"), 3u);
  EXPECT_EQ(count(svg, "<path class=\"s1 wide\""), 1u);
  EXPECT_THAT(svg, HasSubstr("model: Pearson 0.5 (interval 0.4 to 0.6)"));
  EXPECT_THAT(svg, HasSubstr(">not defined</text>"));
  EXPECT_THAT(svg, HasSubstr("a &quot;name&quot; that is much longer than its place …<"));
}

TEST(ForestPlot, DrawsTheNoiseCeilingInItsFirstPanelOnly) {
  ForestPlot plot = {.panels = {"Pearson", "MSE"},
                     .rows = {{"model", {{0.5, 0.4, 0.6}, {0.1, 0.1, 0.1}}, 0, true}},
                     .ceiling = 0.9};
  const std::string svg = forest_plot(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "class=\"ceiling\""), 1u);
  EXPECT_THAT(svg, HasSubstr("<title>noise ceiling: 0.9</title>"));
  plot.ceiling = kNotDefined;
  EXPECT_EQ(count(forest_plot(plot), "class=\"ceiling\""), 0u);
}

TEST(BarChart, LeavesOutWhatWasNotMeasured) {
  const std::string svg = bar_chart({.x_label = "ms",
                                     .groups = {"CPU", "GPU"},
                                     .rows = {{"load", {1.5, kNaN}, ""}, {"idle", {0, 3}, ""}}});
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<rect"), 2u);
  EXPECT_THAT(svg, HasSubstr("idle, GPU: 3 ms"));
}

TEST(Shortened, CountsCharactersNotBytes) {
  EXPECT_EQ(shortened("größer", 6), "größer");
  EXPECT_EQ(shortened("größer", 4), "größ…");
}

}  // namespace
}  // namespace lacuna::report
