#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/report/charts.h"
#include "lacuna/report/html.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

// What both sides have: [shown] each.
struct PredictedPairs {
  std::vector<float> predicted, measured;
  uint64_t missing = 0;
};

PredictedPairs pairs_of(const PartPredictions& predictions, uint64_t label) {
  PredictedPairs pairs;
  for (uint64_t i = label; i < predictions.predicted.size(); i += predictions.label_count()) {
    const float x = predictions.measured[i], y = predictions.predicted[i];
    if (std::isfinite(x) && std::isfinite(y)) {
      pairs.measured.push_back(x);
      pairs.predicted.push_back(y);
    } else {
      ++pairs.missing;
    }
  }
  return pairs;
}

double quantile(std::vector<float>& values, double part) {
  const auto at = values.begin() + ptrdiff_t(part * double(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return double(*at);
}

// All but the outermost thousandth, and a little room.
std::pair<double, double> range_of(std::vector<float> values) {
  constexpr double kOutermost = 0.0005;
  double low = quantile(values, kOutermost), high = quantile(values, 1 - kOutermost);
  if (!(high > low)) low -= 0.5, high += 0.5;
  const double room = 0.02 * (high - low);
  return {low - room, high + room};
}

// How large predictions are, beside what was measured.
struct PredictedScale {
  double spread_ratio = kNotDefined;  // sd of the predictions / sd of the measurements
  // measured = slope * predicted + offset, by least squares: 1 where predictions are as large as
  // they should be, less where they are too large.
  double slope = kNotDefined, offset = kNotDefined;
};

PredictedScale scale_of(const PredictedPairs& pairs) {
  const double n = double(pairs.measured.size());
  double x_mean = 0, y_mean = 0;
  for (size_t i = 0; i < pairs.measured.size(); ++i)
    x_mean += double(pairs.predicted[i]) / n, y_mean += double(pairs.measured[i]) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < pairs.measured.size(); ++i) {
    const double x = double(pairs.predicted[i]) - x_mean, y = double(pairs.measured[i]) - y_mean;
    xx += x * x, yy += y * y, xy += x * y;
  }
  PredictedScale scale;
  if (yy > 0) scale.spread_ratio = std::sqrt(xx / yy);
  if (xx > 0) scale.slope = xy / xx, scale.offset = y_mean - xy / xx * x_mean;
  return scale;
}

// Each axis has its own range: predictions that are too small would else be a flat band.
HeatMap density_of(const PredictedPairs& pairs, const PredictedScale& scale, uint64_t& outside) {
  HeatMap map = {.x_label = "measured",
                 .y_label = "predicted",
                 .bins = uint32_t(std::clamp(std::sqrt(double(pairs.measured.size())), 10.0, 44.0)),
                 .counts = {},
                 .unit = "samples"};
  std::tie(map.x_low, map.x_high) = range_of(pairs.measured);
  std::tie(map.y_low, map.y_high) = range_of(pairs.predicted);
  if (std::isfinite(scale.slope) && scale.slope != 0)  // drawn with the predictions upwards
    map.slope = 1 / scale.slope, map.offset = -scale.offset / scale.slope;
  map.counts.resize(uint64_t(map.bins) * map.bins);
  for (size_t i = 0; i < pairs.measured.size(); ++i) {
    const double x =
        (double(pairs.measured[i]) - map.x_low) / (map.x_high - map.x_low) * double(map.bins);
    const double y =
        (double(pairs.predicted[i]) - map.y_low) / (map.y_high - map.y_low) * double(map.bins);
    const bool is_inside = x >= 0 && y >= 0 && x < map.bins && y < map.bins;
    outside += !is_inside;
    if (is_inside) ++map.counts[uint64_t(y) * map.bins + uint64_t(x)];
  }
  return map;
}

std::string scale_words(const PredictedScale& scale) {
  std::string text;
  if (std::isfinite(scale.spread_ratio))
    text += fmt::format(" The spread of the predictions is {:.3g} of that of the measurements.",
                        scale.spread_ratio);
  if (std::isfinite(scale.slope))
    text += fmt::format(
        " Slope of measured on predicted: {:.3g} (the solid line; 1 where predictions have the "
        "right size, less where they are too large). Dashed: both agree.",
        scale.slope);
  return text;
}

std::string density_figure(const PartPredictions& predictions, uint64_t label,
                           const std::string& label_name) {
  const PredictedPairs pairs = pairs_of(predictions, label);
  const std::string title =
      fmt::format("'{}', {} part", label_name, lacuna::name(predictions.part));
  if (pairs.measured.empty())
    return figure(title, "", "No sample of this part has both a measurement and a prediction.");
  const PredictedScale scale = scale_of(pairs);
  uint64_t outside = 0;
  const HeatMap map = density_of(pairs, scale, outside);
  std::string text = fmt::format("{} samples.", with_commas(pairs.measured.size()));
  if (outside > 0) text += fmt::format(" {} of them outside the axes.", with_commas(outside));
  if (pairs.missing > 0)
    text += fmt::format(" {} without a measurement are left out.", with_commas(pairs.missing));
  return figure(title, heat_map(map), text + scale_words(scale));
}

}  // namespace

std::string predictions_section(const RunContents& run) {
  if (run.predictions.empty()) return run.evaluation ? not_predicted(run) : "";
  std::vector<std::string> plots;
  const uint64_t labels = run.predictions[0].label_count();
  const auto names = run.label_names(labels);
  for (uint64_t l = 0; l < std::min<uint64_t>(labels, kLabelsShown); ++l)
    for (const auto& predictions : run.predictions)
      if (l < predictions.label_count()) plots.push_back(density_figure(predictions, l, names[l]));
  std::string out =
      note("The axis of the predictions has their own range, which is often the smaller one.") +
      figures(plots);
  if (labels > kLabelsShown)
    out += note(fmt::format("The first {} of {} labels.", kLabelsShown, labels));
  return out;
}

}  // namespace lacuna::report
