#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/report/html.h"
#include "lacuna/report/measured_on.h"
#include "lacuna/report/page.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

// What was not measured is an empty cell.
Cell milliseconds(double value) { return {std::isfinite(value) ? number(value) : "", true}; }
Cell rate(double value) {
  return {std::isfinite(value) && value > 0 ? format_rate(value) : "", true};
}
Cell bytes(double value) {
  return {std::isfinite(value) && value >= 0 ? format_bytes(uint64_t(value)) : "", true};
}

bool is_measured(const std::vector<LadderRow>& rows, double LadderRow::*figure) {
  return std::ranges::any_of(rows, [&](const LadderRow& row) { return row.*figure > 0; });
}

TableRow table_row(const LadderRow& row) {
  const std::string exact = row.is_exact ? (*row.is_exact ? "yes" : "no") : row.left_out;
  return {.cells = {text_cell(row.name), rate(row.samples_per_s), milliseconds(row.ms_per_batch),
                    milliseconds(row.planned_ms_per_batch), milliseconds(row.read_ms_per_batch),
                    rate(row.train_steps_per_s), bytes(row.stored_bytes_per_sample),
                    bytes(row.moved_bytes_per_sample), bytes(row.host_peak_bytes),
                    bytes(row.device_peak_bytes), text_cell(exact)}};
}

std::string machine_of(const Ladder& ladder) {
  std::string words = ladder.machine;
  if (std::isfinite(ladder.load)) words += fmt::format("; load {:.2f} when it began", ladder.load);
  if (!ladder.date.empty()) words += "; " + ladder.date;
  return words;
}

std::string samples_of(const Ladder& ladder) {
  return fmt::format("{} samples, batch {}.", with_commas(ladder.samples),
                     with_commas(ladder.batch));
}

// Masks that could be read: `device` and `kernel` load none.
bool reads_masks(const std::string& rung) {
  return std::ranges::none_of(
      kScreenRungs, [&](Rung other) { return name(other) == rung && !loads_masks(other); });
}

ForestPlot plot_of(const Ladder& ladder) {
  const bool has_read = is_measured(ladder.rungs, &LadderRow::read_ms_per_batch);
  const bool has_training = is_measured(ladder.rungs, &LadderRow::train_steps_per_s);
  ForestPlot plot = {.panels = {"samples a second"}, .rows = {}, .is_log = true, .missing = ""};
  if (has_read) plot.panels.push_back("the same, masks read once");
  if (has_training) plot.panels.push_back("training steps a second");
  const auto add = [&](const LadderRow& row, bool is_rung) {
    ForestRow dots = {row.name, {}, is_rung ? 0 : 1, is_rung};
    const auto dot = [&](double value) {
      dots.estimates.push_back({value > 0 ? value : kNotDefined, kNotDefined, kNotDefined});
    };
    dot(row.samples_per_s);
    if (has_read)
      dot(is_rung && !reads_masks(row.name) ? kNotDefined
                                            : 1000 * double(ladder.batch) / row.read_ms_per_batch);
    if (has_training) dot(row.train_steps_per_s);
    if (row.left_out.empty()) plot.rows.push_back(std::move(dots));
  };
  for (const LadderRow& rung : ladder.rungs) add(rung, true);
  for (const LadderRow& peer : ladder.peers) add(peer, false);
  return plot;
}

// What a reader of the picture has to know.
std::string legend_of(const Ladder& ladder) {
  std::string words;
  if (!ladder.peers.empty()) words += " Filled: rungs. Open: peers, measured in the same run.";
  for (const LadderRow& rung : ladder.rungs)
    if (!reads_masks(rung.name)) return words + " No dot: a rung that loads no masks to read.";
  return words;
}

}  // namespace

std::string ladder_picture(const Ladder& ladder) {
  ForestPlot plot = plot_of(ladder);
  if (plot.rows.empty()) throw Error("the ladder has no rungs to draw; name some with --rungs");
  plot.notes = {"All scales are logarithmic. " + samples_of(ladder), machine_of(ladder)};
  plot.notes[0] += legend_of(ladder);
  return standalone(forest_plot(plot));
}

std::string ladder_section(const RunContents& run) {
  if (!run.ladder) return "";
  const Ladder& ladder = *run.ladder;
  const ForestPlot plot = plot_of(ladder);
  std::string out = note(machine_of(ladder) + "; " + samples_of(ladder));
  for (const std::string& sentence : differences(run, ladder)) out += paragraph(sentence);
  if (!ladder.training.empty()) out += note("Trained: " + ladder.training + ".");
  if (plot.rows.empty()) return out + note("The ladder has no rungs.");
  out += figure("Every rung, on a logarithmic scale", forest_plot(plot), legend_of(ladder));
  std::vector<TableRow> rows;
  for (const LadderRow& rung : ladder.rungs) rows.push_back(table_row(rung));
  for (const LadderRow& peer : ladder.peers) rows.push_back(table_row(peer));
  return out + table({"rung", "samples/s", "ms/batch", "planned ms/batch", "ms/batch, read",
                      "training steps/s", "stored/sample", "moved/sample", "host peak",
                      "device peak", "exact"},
                     rows);
}

}  // namespace lacuna::report
