#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/recording_sections.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

using Row = RecordingLadderRow;

bool is_known(const RecordingLadder& ladder, double Row::*figure) {
  return std::ranges::any_of(ladder.rows, [&](const Row& row) { return row.*figure > 0; });
}

// Loops and a ready batch are open dots, as peers are: they are what rungs are compared with.
ForestPlot windows_plot(const RecordingLadder& ladder) {
  const bool has_training = is_known(ladder, &Row::train_ms_per_step);
  ForestPlot plot = {.panels = {"windows a second"}, .rows = {}, .is_log = true, .missing = ""};
  if (has_training) plot.panels.push_back("training steps a second");
  const auto add = [&](const std::string& name, bool is_rung, double windows, double step_ms) {
    ForestRow dots = {name, {}, is_rung ? 0 : 1, is_rung};
    const auto dot = [&](double value) {
      dots.estimates.push_back({value > 0 ? value : kNotDefined, kNotDefined, kNotDefined});
    };
    dot(windows);
    if (has_training) dot(1000 / step_ms);
    plot.rows.push_back(std::move(dots));
  };
  for (const Row& row : ladder.rows)
    add(row.name, row.is_rung, row.windows_per_s, row.train_ms_per_step);
  for (const Json& peer : ladder.peers)
    add(peer.at("name").get<std::string>(), false, peer.at("windows_per_s").get<double>(),
        kNotDefined);
  return plot;
}

// What was not measured, and what is none, is an empty cell.
template <class Format>
Cell cell(double value, const Format& format) {
  return {std::isfinite(value) && value > 0 ? std::string(format(value)) : "", true};
}
std::string bytes_text(double value) { return format_bytes(uint64_t(value)); }
std::string seconds_text(double value) { return format_digits(value) + " s"; }

struct Column {
  const char* head;
  double Row::*value;
  std::string (*format)(double);
};
constexpr Column kColumns[] = {{"windows/s", &Row::windows_per_s, format_rate},
                               {"ms/batch", &Row::ms_per_batch, format_digits},
                               {"a frame", &Row::bytes_per_frame, bytes_text},
                               {"moved/window", &Row::moved_bytes_per_window, bytes_text},
                               {"frames in memory", &Row::held_bytes, bytes_text},
                               {"beside them", &Row::host_peak_bytes, bytes_text},
                               {"prepare", &Row::prepare_s, seconds_text},
                               {"first batch", &Row::first_batch_s, seconds_text},
                               {"ms/step", &Row::train_ms_per_step, format_digits},
                               {"on GPU", &Row::device_peak_bytes, bytes_text}};

std::string rungs_table(const RecordingLadder& ladder) {
  std::vector<const Column*> columns;
  for (const Column& column : kColumns)
    if (is_known(ladder, column.value)) columns.push_back(&column);
  const bool has_training = is_known(ladder, &Row::train_ms_per_step);
  std::vector<std::string> head = {"rung"};
  for (const Column* column : columns) head.push_back(column->head);
  if (has_training) head.push_back("over ready");
  head.push_back("exact");
  std::vector<TableRow> rows;
  for (const Row& row : ladder.rows) {
    TableRow cells = {.cells = {text_cell(row.name)}};
    for (const Column* column : columns)
      cells.cells.push_back(cell(row.*(column->value), column->format));
    if (has_training)
      cells.cells.push_back({std::isfinite(row.train_over_ready)
                                 ? fmt::format("{:+.1f}%", 100 * row.train_over_ready)
                                 : "",
                             true});
    cells.cells.push_back(text_cell(row.is_exact ? (*row.is_exact ? "yes" : "no") : ""));
    rows.push_back(std::move(cells));
  }
  for (const Json& peer : ladder.peers) {
    TableRow cells = {.cells = {text_cell(peer.at("name").get<std::string>()),
                                cell(peer.at("windows_per_s").get<double>(), format_rate)}};
    cells.cells.resize(head.size());
    rows.push_back(std::move(cells));
  }
  return table(head, rows);
}

// A run may read fewer sessions than the ladder, which is measured on some frames of all.
std::vector<std::string> recording_differences(const RunContents& run,
                                               const RecordingLadder& ladder) {
  std::vector<std::string> out, other;
  for (const auto& part : run.info.fingerprint.parts())
    if (const FingerprintPart* found = ladder.fingerprint.find(part.name);
        !found || found->hash != part.hash)
      other.push_back(part.name);
  if (!other.empty())
    out.push_back(fmt::format("Measured on another recording than this run's: {}, whose {} {}.",
                              ladder.recording, fmt::join(other, ", "),
                              other.size() == 1 ? "differs" : "differ"));
  const auto compare = [&](const char* key, const char* what, uint64_t there) {
    const std::string here = run.setting(key);
    if (!here.empty() && here != std::to_string(there))
      out.push_back(fmt::format("Measured with {} {}, while this run was trained with {}.", what,
                                with_commas(there), here));
  };
  compare("train.batch", "batch", ladder.batch);
  compare("window.lags", "lags", ladder.lags);
  return out;
}

}  // namespace

std::string recording_ladder_section(const RunContents& run) {
  if (!run.recording_ladder) return "";
  const RecordingLadder& ladder = *run.recording_ladder;
  std::string out = note(fmt::format(
      "{}; load {:.2f} when it began; {}; {} frames, {} windows of {} lags, batch {}, {} loader "
      "threads, warm.",
      ladder.machine, ladder.load, ladder.date, with_commas(ladder.frames),
      with_commas(ladder.windows), ladder.lags, with_commas(ladder.batch), ladder.threads));
  for (const std::string& sentence : recording_differences(run, ladder)) out += paragraph(sentence);
  if (!ladder.training.empty()) out += note("Trained: " + ladder.training + ".");
  if (ladder.rows.empty()) return out + note("The ladder has no rungs.");
  out += figure("Every rung, on a logarithmic scale", forest_plot(windows_plot(ladder)),
                " Filled: rungs. Open: what they are compared with, measured in the same run.");
  return out + rungs_table(ladder);
}

}  // namespace lacuna::report
