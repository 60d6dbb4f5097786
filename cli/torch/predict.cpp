// `lacuna predict`: what a run's model says about samples.
#include "lacuna/train/predict.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/ranks.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/train/recording/evaluate_recording.h"
#include "lacuna/train/session.h"

namespace lacuna::cli {

namespace {

void note_once(const std::string& words) {
  if (ranks().is_first()) print_note(words);
}

void predict_recording(const PredictCall& call, const Run& run) {
  const PredictRequest& request = call.request;
  if (request.chooses_samples() || request.top > 0 || request.lowest || !request.by.empty() ||
      !request.screen.empty() || request.batch > 0 || call.shard != "1/1")
    throw UsageError(
        "{} is the run of a recording: all its windows are predicted; it takes --out FOLDER, "
        "--checkpoint, --device and --recording only",
        call.run.string());
  TerminalProgress terminal;
  Progress& progress = ranks().is_first() ? terminal : Progress::none();
  const std::string checkpoint = choose_checkpoint(run, request.checkpoint);
  const RecordingSession session = open_recording_run(
      run, {.checkpoint = checkpoint, .device = request.device, .recording = call.recording},
      note_once, progress, ranks());
  const PredictedRates done = predict_rates(session, checkpoint, request.out, progress);
  if (!ranks().is_first()) return;
  fmt::print("{}: rates of {} windows in {} files, predicted with checkpoint {}\n",
             request.out.string(), with_commas(done.windows), done.files, checkpoint);
}

}  // namespace

void run(const PredictCall& call) {
  const auto start = std::chrono::steady_clock::now();
  PredictRequest request = call.request;
  request.shard = parse_shard(call.shard);
  stop_on_signals();
  const Run of = Run::open(call.run);
  if (read_config(of.config(), {}).kind() == DataKind::recording)
    return predict_recording(call, of);
  TerminalProgress progress;
  const PredictResult result =
      predict(of, request, ranks().is_first() ? progress : Progress::none(), note_once, ranks());
  if (!ranks().is_first()) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::string kept = request.top > 0
                               ? fmt::format("the {} {} of ", with_commas(result.written),
                                             request.lowest ? "lowest" : "highest")
                               : "";
  fmt::print("{}: {}{} {}samples, predicted with checkpoint {} in {:.1f} s\n", request.out.string(),
             kept, with_commas(result.asked), request.unmeasured ? "unmeasured " : "",
             result.checkpoint, seconds.count());
}

}  // namespace lacuna::cli
