#include "lacuna/report/recording_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/charts.h"
#include "lacuna/report/html.h"
#include "lacuna/report/png.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/store/npy.h"

namespace lacuna::report {
namespace {

constexpr size_t kMostFields = 24;  // pictures of a session: those of the units predicted best

// A zero by definition has no sign that rounding gave it.
Estimate without_rounding(Estimate estimate) {
  for (double* value : {&estimate.value, &estimate.low, &estimate.high})
    if (std::abs(*value) < 5e-4) *value = 0;
  return estimate;
}

std::string estimate_html(const Estimate& given) {
  const Estimate estimate = without_rounding(given);
  if (!std::isfinite(estimate.value)) return "<span class=\"pale\">not defined</span>";
  if (!std::isfinite(estimate.low)) return correlation(estimate.value);
  return fmt::format("{} <span class=\"pale\">[{}, {}]</span>", correlation(estimate.value),
                     correlation(estimate.low), correlation(estimate.high));
}

std::string number_card(const std::string& value, const std::string& what,
                        const std::string& more = "") {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span><small>{}</small></div>\n",
                     escape(value), escape(what), escape(more));
}

std::string range_text(const Estimate& estimate) {
  if (!std::isfinite(estimate.low)) return "";
  return fmt::format("{} to {}", correlation(estimate.low), correlation(estimate.high));
}

// The baseline with the most bits per spike; null: none.
const RecordingScore* best_of_baselines(const std::vector<RecordingScore>& scores) {
  const RecordingScore* best = nullptr;
  for (size_t p = 1; p < scores.size(); ++p)
    if (std::isfinite(scores[p].bits_per_spike.value) &&
        (!best || scores[p].bits_per_spike.value > best->bits_per_spike.value))
      best = &scores[p];
  return best;
}

double mean_ceiling(const RecordingPartEvaluation& part) {
  double sum = 0, count = 0;
  for (const SessionEvaluation& session : part.sessions)
    if (std::isfinite(session.ceiling)) {
      sum += session.ceiling;
      ++count;
    }
  return count > 0 ? sum / count : kNotDefined;
}

const RecordingPartEvaluation* part_of(const RunContents& run) {
  return run.recording_evaluation ? run.recording_evaluation->main_part() : nullptr;
}

std::string lead_words(const RecordingScore& baseline) {
  const Estimate& lead = baseline.lead;
  if (!std::isfinite(lead.low))
    return "Without draws this does not say whether the model is ahead of it.";
  const char* what = lead.low > 0    ? "The model is ahead of it"
                     : lead.high < 0 ? "The model is behind it"
                                     : "The two are not told apart";
  return fmt::format(
      "{}: its bits per spike minus the baseline's are {} (95% bootstrap interval "
      "over trials {} to {}).",
      what, correlation(lead.value), correlation(lead.low), correlation(lead.high));
}

std::string recording_verdict(const RecordingPartEvaluation& part) {
  const RecordingScore& model = part.scores.at(0);
  std::string text = fmt::format(
      "On the {} part the model gains {} bits per spike over the units' mean rates of training, "
      "and its rates correlate with the counts at {} (means over {} sessions).",
      part.part, correlation(model.bits_per_spike.value), correlation(model.correlation.value),
      part.sessions.size());
  if (const double ceiling = mean_ceiling(part); std::isfinite(ceiling))
    text += fmt::format(
        " Where stimuli repeat, no rates could correlate above {} on average: the "
        "noise ceiling.",
        correlation(ceiling));
  if (const RecordingScore* best = best_of_baselines(part.scores))
    text += fmt::format(" The best simple baseline, the {}, gains {}. {}", best->predictor,
                        correlation(best->bits_per_spike.value), lead_words(*best));
  return text;
}

std::string cards_of(const RunContents& run) {
  std::string out = "<div class=\"cards\">\n";
  if (const RecordingPartEvaluation* part = part_of(run); part && !part->scores.empty()) {
    const RecordingScore& model = part->scores[0];
    out += number_card(correlation(model.bits_per_spike.value), "bits per spike, " + part->part,
                       range_text(model.bits_per_spike));
    if (const RecordingScore* best = best_of_baselines(part->scores))
      out += number_card(correlation(best->bits_per_spike.value), "best baseline",
                         best->predictor + ", " + range_text(best->bits_per_spike));
    const double ceiling = mean_ceiling(*part);
    out += number_card(correlation(model.correlation.value), "correlation, " + part->part,
                       std::isfinite(ceiling) ? "noise ceiling " + correlation(ceiling)
                                              : range_text(model.correlation));
  }
  if (run.info.parameters > 0) out += number_card(with_commas(run.info.parameters), "parameters");
  if (!run.epochs.empty())
    out += number_card(with_commas(run.epochs.size()), run.epochs.size() == 1 ? "epoch" : "epochs",
                       fmt::format("{} steps", with_commas(run.last_step())));
  return out + "</div>\n";
}

void add_score_row(const ScoredRows& rows, const std::string& name, double ceiling, bool is_strong,
                   std::vector<TableRow>& out) {
  std::vector<Cell> cells = {{name, false}, count_cell(rows.trials), count_cell(rows.spikes)};
  for (const RecordingScore& score : rows.scores)
    cells.push_back({estimate_html(score.bits_per_spike), true});
  cells.push_back({estimate_html(rows.scores.at(0).correlation), true});
  cells.push_back({std::isfinite(ceiling) ? correlation(ceiling) : "", true});
  out.push_back({.cells = std::move(cells), .is_strong = is_strong});
}

std::string scores_table(const RecordingPartEvaluation& part) {
  std::vector<std::string> head = {"session, segment", "trials", "spikes"};
  for (const RecordingScore& score : part.scores)
    head.push_back("bits per spike, " + score.predictor);
  head.push_back("correlation, model");
  head.push_back("noise ceiling");
  std::vector<TableRow> rows;
  for (const SessionEvaluation& session : part.sessions) {
    add_score_row(session.all, escape(session.all.name), session.ceiling, true, rows);
    if (session.segments.size() < 2) {
      for (const ScoredRows& segment : session.segments)
        rows.back().cells[0].html +=
            fmt::format(" <span class=\"pale\">{}</span>", escape(segment.name));
      continue;
    }
    for (const ScoredRows& segment : session.segments)
      add_score_row(segment, "<span class=\"pale\">- " + escape(segment.name) + "</span>",
                    kNotDefined, false, rows);
  }
  return table(head, rows);
}

std::string sessions_forest(const RecordingPartEvaluation& part) {
  std::vector<ForestRow> rows;
  for (const SessionEvaluation& session : part.sessions)
    for (size_t p = 0; p < session.all.scores.size(); ++p) {
      const RecordingScore& score = session.all.scores[p];
      const std::string name =
          p == 0 ? fmt::format("{}: model", session.all.name) : score.predictor;
      rows.push_back({name, {score.bits_per_spike, score.correlation}, int(p), p == 0});
    }
  return figure("Model and baselines by session",
                forest_plot({{"bits per spike", "correlation"}, rows}),
                "Lines: 95% bootstrap intervals over trials. Bits per spike are against the unit's "
                "mean rate of training, so the mean rate has none by definition. The linear field "
                "is a ridge regression on block means of the window.");
}

// Units of all sessions, by their scores.
std::string units_figures(const RecordingPartEvaluation& part) {
  std::vector<double> bits;
  for (const SessionEvaluation& session : part.sessions)
    for (const UnitEvaluation& unit : session.units)
      if (std::isfinite(unit.bits_per_spike.at(0))) bits.push_back(unit.bits_per_spike[0]);
  if (bits.size() < 2) return "";
  std::sort(bits.begin(), bits.end());
  const double low = bits[bits.size() / 100], high = bits[bits.size() - 1 - bits.size() / 100];
  if (!(high > low)) return "";
  constexpr int kBins = 24;
  Histogram histogram = {.x_label = "bits per spike of a unit",
                         .y_label = "units",
                         .edges = {},
                         .counts = std::vector<uint64_t>(kBins, 0),
                         .unit = "units"};
  for (int b = 0; b <= kBins; ++b) histogram.edges.push_back(low + (high - low) * b / kBins);
  for (const double value : bits) {
    const int bin = int((value - low) / (high - low) * kBins);
    ++histogram.counts[size_t(std::clamp(bin, 0, kBins - 1))];
  }
  return figure("Units", lacuna::report::histogram(histogram),
                "The lowest and the highest hundredth are counted in the outer bins.");
}

std::string calibration(const SessionEvaluation& session) {
  Series found = {.name = "mean count", .x = {}, .y = {}, .colour = 0};
  Series same = {.name = "as predicted", .x = {}, .y = {}, .colour = 7};
  for (const RateBin& bin : session.bins) {
    const double rate = bin.rate * session.rate;
    if (!found.x.empty() && !(rate > found.x.back())) continue;
    found.x.push_back(rate);
    found.y.push_back(bin.count * session.rate);
  }
  if (found.x.size() < 2) return "";
  same.x = same.y = {found.x.front(), found.x.back()};
  return figure(session.all.name + ": rates against counts",
                line_chart({.x_label = "predicted rate, spikes a second",
                            .y_label = "counted, spikes a second",
                            .series = {found, same}}) +
                    legend({{"counted", 0}, {"as predicted", 7}}),
                "Each point: a twentieth of all predictions, by their rate.");
}

std::string trace_figure(const SessionEvaluation& session,
                         const std::vector<std::string>& predictors) {
  if (!session.trace) return "";
  const RateTrace& trace = *session.trace;
  std::vector<Series> series;
  std::vector<LegendEntry> entries;
  const auto add = [&](const std::string& name, const std::vector<double>& values, int colour) {
    Series one = {.name = name, .x = {}, .y = {}, .colour = colour};
    for (size_t i = 0; i < values.size(); ++i) {
      one.x.push_back(double(i) / std::max(session.rate, 1e-9));
      one.y.push_back(values[i] * session.rate);
    }
    series.push_back(std::move(one));
    entries.push_back({name, colour});
  };
  add(trace.repeats > 1 ? fmt::format("counted, mean of {} repeats", trace.repeats) : "counted",
      trace.counts, 7);
  for (size_t p = 0; p < trace.rates.size(); ++p)
    if (p >= predictors.size() || predictors[p] != "mean rate")
      add(p < predictors.size() ? predictors[p] : "model", trace.rates[p], int(p));
  return figure(fmt::format("{}: unit {} in {}", session.all.name, trace.unit, trace.segment),
                line_chart({.x_label = "seconds", .y_label = "spikes a second", .series = series}) +
                    legend(entries));
}

// The time course under a picture; newest first, so that time runs to the left.
std::string time_course(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(double(value)));
  std::string path;
  for (size_t i = 0; i < values.size(); ++i)
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L",
                        100 - 100.0 * double(i) / double(std::max<size_t>(values.size() - 1, 1)),
                        12 - (most > 0 ? 10 * values[i] / most : 0));
  return fmt::format(
      "<svg viewBox=\"0 0 100 24\" width=\"100%\" height=\"24\" preserveAspectRatio=\"none\" "
      "class=\"line\" aria-hidden=\"true\"><path class=\"s7\" style=\"stroke-width:.5\" "
      "d=\"M0 12h100\"/><path class=\"s0\" d=\"{}\"/></svg>",
      path);
}

std::string session_fields(const RunContents& run, const SessionEvaluation& session) {
  const auto file = [&](const char* what) {
    return run.path / "fields" / (session.all.name + what);
  };
  if (!fs::exists(file(".spatial.npy")) || !fs::exists(file(".temporal.npy"))) return "";
  const Array spatial = read_npy(file(".spatial.npy")), temporal = read_npy(file(".temporal.npy"));
  const Shape& shape = spatial.shape();
  if (spatial.dtype() != DType::f32 || temporal.dtype() != DType::f32 || shape.size() != 3 ||
      temporal.shape().size() != 2 || shape[0] != session.units.size() ||
      temporal.shape()[0] != shape[0])
    throw Error("{} does not belong to the evaluation beside it; run `lacuna evaluate {}`",
                file(".spatial.npy").string(), run.path.string());
  std::vector<size_t> order(session.units.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const auto score = [&](size_t u) {
    const double value = session.units[u].correlation.at(0);
    return std::isfinite(value) ? value : -2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return score(a) > score(b); });
  const uint64_t pixels = shape[1] * shape[2], lags = temporal.shape()[1];
  std::string pictures;
  for (size_t i = 0; i < std::min(order.size(), kMostFields); ++i) {
    const size_t u = order[i];
    const auto field = spatial.as<float>().subspan(u * pixels, pixels);
    double most = 0;
    for (const float value : field) most = std::max(most, std::abs(double(value)));
    const UnitEvaluation& unit = session.units[u];
    pictures += fmt::format(
        "<div class=\"field\"><img alt=\"field of unit {0}\" src=\"{1}\" title=\"unit {0}: {2} "
        "spikes, correlation {3}, {4} bits per spike\">{5}<small>{0} &middot; {3}</small></div>\n",
        escape(unit.unit), diverging_picture(field, uint32_t(shape[1]), uint32_t(shape[2]), most),
        with_commas(unit.spikes), correlation(unit.correlation.at(0)),
        correlation(unit.bits_per_spike.at(0)),
        time_course(temporal.as<float>().subspan(u * lags, lags)));
  }
  const std::string title = order.size() > kMostFields
                                ? fmt::format("{}: the {} units predicted best, of {}",
                                              session.all.name, kMostFields, order.size())
                                : fmt::format("{}: {} units", session.all.name, order.size());
  return figure(title, "<div class=\"fields\">" + pictures + "</div>");
}

}  // namespace

std::string recording_summary_section(std::span<const RunContents> runs) {
  if (runs.size() == 1) {
    const RecordingPartEvaluation* part = part_of(runs[0]);
    if (part && !part->scores.empty())
      return cards_of(runs[0]) + paragraph(recording_verdict(*part));
    return cards_of(runs[0]) +
           paragraph(fmt::format("This run was not evaluated yet: run `lacuna evaluate {}`, then "
                                 "make the report again.",
                                 shell_word(runs[0].path.string())));
  }
  std::vector<TableRow> rows;
  std::vector<ForestRow> forest;
  for (size_t r = 0; r < runs.size(); ++r) {
    const RecordingPartEvaluation* part = part_of(runs[r]);
    const bool is_scored = part && !part->scores.empty();
    const RecordingScore* best = is_scored ? best_of_baselines(part->scores) : nullptr;
    rows.push_back(
        {.cells = {
             text_cell(runs[r].name),
             text_cell(runs[r].info.status),
             text_cell(is_scored ? part->part : "not evaluated yet"),
             {is_scored ? estimate_html(part->scores[0].bits_per_spike) : "", true},
             {is_scored ? estimate_html(part->scores[0].correlation) : "", true},
             {best ? fmt::format("{} <span class=\"pale\">{}</span>",
                                 correlation(best->bits_per_spike.value), escape(best->predictor))
                   : "",
              true},
             count_cell(runs[r].epochs.size()),
             count_cell(runs[r].info.parameters)}});
    if (is_scored)
      forest.push_back({runs[r].name,
                        {part->scores[0].bits_per_spike, part->scores[0].correlation},
                        int(r),
                        true});
  }
  std::string out = table({"run", "status", "part", "bits per spike", "correlation",
                           "best baseline", "epochs", "parameters"},
                          rows);
  if (!forest.empty())
    out += figure("Runs", forest_plot({{"bits per spike", "correlation"}, forest}),
                  "Lines: 95% bootstrap intervals over trials.");
  return out;
}

std::string recording_data_section(std::span<const RunContents> runs) {
  std::vector<TableRow> rows;
  for (const RunContents& run : runs) {
    const RecordingInfo& info = run.info.recording;
    rows.push_back(
        {.cells = {text_cell(runs.size() > 1 ? run.name : info.path),
                   count_cell(info.sessions.size()), count_cell(info.units),
                   count_cell(info.windows("train")), count_cell(info.windows("validation")),
                   count_cell(info.windows("test")), text_cell(format_bytes(info.bytes)),
                   text_cell(info.rung), text_cell(run.setting("split"))}});
  }
  return table({runs.size() > 1 ? "run" : "recording", "sessions", "units", "training windows",
                "validation", "test", "bytes", "rung", "split"},
               rows);
}

std::string recording_scores_section(const RunContents& run) {
  const RecordingPartEvaluation* part = part_of(run);
  if (!part || part->sessions.empty()) return "";
  std::string out = sessions_forest(*part) + scores_table(*part) + units_figures(*part);
  for (const std::string& words : run.recording_evaluation->notes) out += note(words);
  return out;
}

std::string rates_section(const RunContents& run) {
  const RecordingPartEvaluation* part = part_of(run);
  if (!part) return "";
  std::vector<std::string> plots;
  for (const SessionEvaluation& session : part->sessions) {
    for (const std::string& plot :
         {calibration(session), trace_figure(session, run.recording_evaluation->predictors)})
      if (!plot.empty()) plots.push_back(plot);
  }
  return plots.empty() ? "" : figures(plots);
}

std::string fields_section(const RunContents& run) {
  const RecordingPartEvaluation* part = part_of(run);
  if (!part) return "";
  std::string out;
  for (const SessionEvaluation& session : part->sessions) out += session_fields(run, session);
  if (out.empty()) return "";
  return note(
             "What a unit answers to, in the model: the mean gradient of its drive by the pixels "
             "of the window, as a picture (red: brighter is more, blue: darker is more) and its "
             "course over the lags, the newest on the right. Below: the unit and the correlation "
             "of its rates with its counts.") +
         out;
}

}  // namespace lacuna::report
