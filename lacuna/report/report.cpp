#include "lacuna/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lacuna/core/error.h"
#include "lacuna/report/explain/explanation_section.h"
#include "lacuna/report/grid/grid_section.h"
#include "lacuna/report/html.h"
#include "lacuna/report/page.h"
#include "lacuna/report/recording_sections.h"
#include "lacuna/report/run_screen.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/compare/summary_file.h"
#include "lacuna/run/run_contents.h"
#include "lacuna/screen/candidates.h"

namespace lacuna {
namespace {

using namespace report;

// A section a gene that was asked for. Throws Error for a gene that the screen does not have.
std::vector<PageSection> gene_pages(const RunContents& run, const RunScreen& screen,
                                    const std::vector<std::string>& genes) {
  std::vector<PageSection> pages;
  for (const std::string& asked : genes) {
    if (!screen.facts)
      throw Error("--gene {} needs the screen of {}: {}", asked, run.path.string(), screen.problem);
    const Names& names = screen.facts->screen.graph().genes().names;
    const uint32_t gene = find_gene(names, asked, "--gene");
    pages.push_back({fmt::format("gene{}", pages.size()), "Gene " + names.shown(gene),
                     gene_section(run, screen, gene)});
  }
  return pages;
}

// What is about one run alone, in reading order; empty sections are left out.
std::vector<PageSection> sections_of_run(const RunContents& run, const RunScreen& screen,
                                         const ReportOptions& options) {
  std::vector<PageSection> sections = gene_pages(run, screen, options.genes);
  std::vector<PageSection> others = {
      {"baselines", "Model and baselines", baselines_section(run)},
      {"groups", "Scores by group, and on strong samples",
       groups_section(run, screen, options.threshold)},
      {"predictions", "Predicted against measured", predictions_section(run)},
      {"errors", "Errors by gene and by pair", errors_section(run, screen)},
      {"networks", "Networks and unmeasured samples", explanation_section(run, screen)},
      {"profile", "Profile", profile_section(run)},
      {"ladder", "Ladder", ladder_section(run)},
      {"config", "Settings, and how to run it again", config_section(run)}};
  std::erase_if(others, [](const PageSection& section) { return section.html.empty(); });
  std::ranges::move(others, std::back_inserter(sections));
  return sections;
}

// The same of a run on a recording.
std::vector<PageSection> sections_of_recording_run(const RunContents& run) {
  std::vector<PageSection> sections = {
      {"scores", "Scores by session and segment", recording_scores_section(run)},
      {"rates", "Rates against counts", rates_section(run)},
      {"fields", "Learned fields", fields_section(run)},
      {"profile", "Profile", profile_section(run)},
      {"ladder", "Ladder", recording_ladder_section(run)},
      {"config", "Settings, and how to run it again", config_section(run)}};
  std::erase_if(sections, [](const PageSection& section) { return section.html.empty(); });
  return sections;
}

std::string recording_page(const std::vector<RunContents>& runs) {
  std::string lead;
  for (const RunContents& run : runs) lead += banners(run, runs.size() > 1);
  std::vector<PageSection> sections = {{"summary", "Summary", recording_summary_section(runs)},
                                       {"data", "Data", recording_data_section(runs)},
                                       {"training", "Training", training_section(runs)}};
  if (runs.size() == 1) {
    for (auto& section : sections_of_recording_run(runs[0])) sections.push_back(std::move(section));
    return page(runs[0].name, "a run of Lacuna", lead, sections);
  }
  std::string folded;
  for (size_t r = 0; r < runs.size(); ++r) {
    std::string html = recording_summary_section({&runs[r], 1});
    for (const auto& section : sections_of_recording_run(runs[r]))
      html += fmt::format("<h3>{}</h3>\n{}", section.title, section.html);
    folded += fmt::format("<div class=\"run\" id=\"run{}\">{}</div>\n", r,
                          fold(runs[r].name, html, false));
  }
  sections.push_back({"runs", "Each run", folded});
  return page(fmt::format("{} runs", runs.size()), "side by side", lead, sections);
}

std::string page_of_one(const std::vector<RunContents>& runs, const std::vector<RunScreen>& screens,
                        const ReportOptions& options) {
  std::vector<PageSection> sections = {{"summary", "Summary", summary_section(runs, screens)},
                                       {"data", "Data", data_section(runs, screens)},
                                       {"training", "Training", training_section(runs)}};
  for (auto& section : sections_of_run(runs[0], screens[0], options))
    sections.push_back(std::move(section));
  return page(runs[0].name,
              runs[0].is_ensemble() ? "an ensemble of runs of Lacuna" : "a run of Lacuna",
              banners(runs[0], false), sections);
}

std::string folded_run(const std::vector<RunContents>& runs, const std::vector<RunScreen>& screens,
                       size_t r, const ReportOptions& options) {
  std::string html = banners(runs[r], false) + summary_section({&runs[r], 1}, {&screens[r], 1});
  if (!runs[r].steps.empty()) html += "<h3>Training</h3>\n" + training_section({&runs[r], 1});
  for (const auto& section : sections_of_run(runs[r], screens[r], options))
    html += fmt::format("<h3>{}</h3>\n{}", section.title, section.html);
  return fmt::format("<div class=\"run\" id=\"run{}\">{}</div>\n", r,
                     fold(runs[r].name, html, false));
}

std::string page_of_several(const std::vector<RunContents>& runs,
                            const std::vector<RunScreen>& screens, const ReportOptions& options) {
  std::string lead, folded;
  for (size_t r = 0; r < runs.size(); ++r) {
    lead += banners(runs[r], true);
    folded += folded_run(runs, screens, r, options);
  }
  return page(fmt::format("{} runs", runs.size()), "side by side", lead,
              {{"summary", "Summary", summary_section(runs, screens)},
               {"data", "Data", data_section(runs, screens)},
               {"training", "Training", training_section(runs)},
               {"runs", "Each run", folded}});
}

// A grid is read by its means over runs; the runs themselves come behind.
std::string page_of_grid(const fs::path& folder, const std::vector<RunContents>& runs,
                         const std::vector<RunScreen>& screens, const ReportOptions& options) {
  std::string lead, folded;
  for (size_t r = 0; r < runs.size(); ++r) {
    lead += banners(runs[r], true);
    folded += folded_run(runs, screens, r, options);
  }
  fs::path named = fs::absolute(folder).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  return page(named.filename().string(), "a grid of runs", lead,
              {{"grid", "Mean and spread over runs", grid_section(read_summary(folder))},
               {"summary", "Run by run", summary_section(runs, screens)},
               {"data", "Data", data_section(runs, screens)},
               {"training", "Training", training_section(runs)},
               {"runs", "Each run", folded}});
}

}  // namespace

size_t write_report(const std::vector<fs::path>& paths, const fs::path& out, Progress& progress,
                    const ReportOptions& options) {
  if (paths.empty()) throw UsageError("a report needs at least one run");
  const std::vector<RunContents> runs = read_runs(paths);
  const auto recordings = std::count_if(runs.begin(), runs.end(),
                                        [](const RunContents& run) { return run.is_recording(); });
  if (recordings != 0 && size_t(recordings) != runs.size())
    throw Error("some of these runs are of screens, others of recordings; make a report of each");
  if (recordings != 0) {
    write_text_atomically(out, recording_page(runs));
    return runs.size();
  }
  const std::vector<RunScreen> screens = find_screens(runs, progress);
  if (paths.size() == 1 && has_summary(paths[0])) {
    write_text_atomically(out, page_of_grid(paths[0], runs, screens, options));
    return runs.size();
  }
  write_text_atomically(out, runs.size() == 1 ? page_of_one(runs, screens, options)
                                              : page_of_several(runs, screens, options));
  return runs.size();
}

}  // namespace lacuna
