#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/measured_on.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

// The value of this category on one side, or not defined.
const ProfileCategory* find(const std::vector<ProfileCategory>& entries,
                            const std::string& category) {
  for (const auto& entry : entries)
    if (entry.name == category) return &entry;
  return nullptr;
}

std::vector<std::string> categories_of(const StepProfile& profile) {
  std::vector<std::string> categories;
  for (const auto* side : {&profile.cpu, &profile.gpu})
    for (const auto& entry : *side)
      if (std::find(categories.begin(), categories.end(), entry.name) == categories.end())
        categories.push_back(entry.name);
  return categories;
}

// A value that was not measured is an empty cell.
Cell optional_number(double value) { return {std::isfinite(value) ? number(value) : "", true}; }
Cell optional_share(double value) {
  return {std::isfinite(value) ? fmt::format("{:.1f}%", 100 * value) : "", true};
}

}  // namespace

std::string profile_section(const RunContents& run) {
  if (!run.profile) return "";
  const StepProfile& profile = *run.profile;
  const bool has_gpu = !profile.gpu.empty();
  BarChart chart = {.x_label = "ms a step", .groups = {"CPU"}, .rows = {}};
  if (has_gpu) chart.groups.push_back("GPU");
  std::vector<TableRow> rows;
  for (const auto& category : categories_of(profile)) {
    const ProfileCategory* cpu = find(profile.cpu, category);
    const ProfileCategory* gpu = find(profile.gpu, category);
    const ProfileCategory none;
    const ProfileCategory &on_cpu = cpu ? *cpu : none, &on_gpu = gpu ? *gpu : none;
    BarRow bar = {.name = category, .values = {on_cpu.ms}, .note = ""};
    TableRow row = {
        .cells = {text_cell(category), optional_number(on_cpu.ms), optional_share(on_cpu.share)}};
    if (has_gpu) {
      bar.values.push_back(on_gpu.ms);
      row.cells.push_back(optional_number(on_gpu.ms));
      row.cells.push_back(optional_share(on_gpu.share));
    }
    chart.rows.push_back(std::move(bar));
    rows.push_back(std::move(row));
  }
  std::string out = paragraph(profile.largest);
  out += note(fmt::format("{}, batch {}, {} steps, {} ms of wall time a step.", profile.device,
                          with_commas(profile.batch), with_commas(profile.steps),
                          number(profile.wall_ms)));
  if (!profile.machine.empty()) out += note(fmt::format("{}; {}.", profile.machine, profile.date));
  for (const std::string& sentence : differences(run, profile)) out += paragraph(sentence);
  if (chart.rows.empty()) return out + note("The profile has no categories.");
  std::vector<std::string> head = {"", "CPU, ms a step", "share"};
  if (has_gpu) head.insert(head.end(), {"GPU, ms a step", "share"});
  out += figure("Where the time of a training step goes",
                bar_chart(chart) + (has_gpu ? legend({{"CPU", 0}, {"GPU", 1}}) : ""));
  return out + table(head, rows);
}

std::string config_section(const RunContents& run) {
  std::vector<TableRow> rows;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) rows.push_back({.cells = {text_cell(what), text_cell(value)}});
  };
  add("run", run.path.string());
  add("status", run.info.status);
  add("started", run.info.started);
  add("ended", run.info.ended);
  add("device", run.info.device);
  add("lacuna", run.info.lacuna_version);
  add("torch", run.info.torch_version);
  add("parameters", run.info.parameters > 0 ? with_commas(run.info.parameters) : "");
  add("screen", run.info.screen);
  std::string out = table({"", ""}, rows);
  if (!run.info.command.empty())
    out += paragraph("The command that made this run:") + code_block(run.info.command);
  const fs::path path = run.path.has_filename() ? run.path : run.path.parent_path();
  const std::string again = path.string() + "-again";
  if (run.ensemble)
    return out + paragraph("The same members once more, as they are evaluated now:") +
           code_block(run.ensemble->command(again));
  if (run.setting("model.name").empty()) return out;  // nothing that could be trained again
  const std::string config = (run.path / "config.yaml").string();
  out += paragraph("The same settings once more, from the resolved configuration below:");
  out += code_block(fmt::format("lacuna train {} --out {}", shell_word(config), shell_word(again)));
  return out + fold("Resolved configuration (config.yaml)", code_block(run.config), true);
}

}  // namespace lacuna::report
