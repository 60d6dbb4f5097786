// `lacuna explain`: what carries the predictions of a run.
#include "lacuna/train/explain/explain.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna::cli {
namespace {

std::string explained_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-";
}

// A row a network: the first label's Pearson without it, and what is lost.
void print_networks(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows = {{"without", "Pearson", "lost", "MSE"}};
  const Metrics& all = explanation.with_all.at(0);
  rows.push_back({"nothing", explained_number(all.pearson), "", fmt::format("{:.4g}", all.mse)});
  for (size_t t = 0; t < explanation.networks.size(); ++t) {
    const Metrics& without = explanation.without[t].at(0);
    rows.push_back({explanation.networks[t], explained_number(without.pearson),
                    explained_number(all.pearson - without.pearson),
                    fmt::format("{:.4g}", without.mse)});
  }
  fmt::print("'{}' on {} samples of the {} part\n{}", explanation.labels.at(0),
             with_commas(explanation.samples), explanation.part, format_table(rows));
}

}  // namespace

void run(const ExplainCall& call) {
  stop_on_signals();
  TerminalProgress progress;
  const Run of = Run::open(call.run);
  try {
    const Explanation explanation = explain(of, call.request, progress, print_note);
    write_explanation(of.path(), explanation);
    print_networks(explanation);
    for (const StrongestPredictions& found : explanation.strongest)
      fmt::print("{}{} unmeasured samples predicted; the strongest are kept\n",
                 found.with.empty() ? "" : found.with + ": ", with_commas(found.candidates));
    fmt::print("wrote {}; `lacuna report {}` shows it\n", (of.path() / kExplanationFile).string(),
               shell_word(of.path().string()));
  } catch (const Stopped&) {
    progress.end();
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
  }
}

}  // namespace lacuna::cli
