// `lacuna predict`: what a run's model says about samples.
#include "lacuna/train/predict.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {

void run(const PredictCall& call) {
  const auto start = std::chrono::steady_clock::now();
  const PredictRequest& request = call.request;
  stop_on_signals();
  TerminalProgress progress;
  const PredictResult result = predict(Run::open(call.run), request, progress, print_note);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::string kept = request.top > 0
                               ? fmt::format("the {} {} of ", with_commas(result.written),
                                             request.lowest ? "lowest" : "highest")
                               : "";
  fmt::print("{}: {}{} samples, predicted with checkpoint {} in {:.1f} s\n", request.out.string(),
             kept, with_commas(result.asked), result.checkpoint, seconds.count());
}

}  // namespace lacuna::cli
