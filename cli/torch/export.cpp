// `lacuna export`: what a run's model has learnt, as arrays.
#include "lacuna/train/export.h"

#include <fmt/format.h>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {

void run(const ExportCall& call) {
  const ExportRequest& request = call.request;
  stop_on_signals();
  TerminalProgress progress;
  const ExportResult result = export_embeddings(Run::open(call.run), request, progress, print_note);
  fmt::print("{}: {} genes and {} samples, width {}, from checkpoint {}\n", request.out.string(),
             with_commas(result.genes), with_commas(result.samples), result.width,
             result.checkpoint);
}

}  // namespace lacuna::cli
