// `lacuna evaluate`: a run's model and the simple baselines, on the parts of its split.
#include <fmt/format.h>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/ranks.h"
#include "cli/torch/train_lines.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/train/evaluate_predictions.h"
#include "lacuna/train/evaluate_run.h"
#include "lacuna/train/recording/evaluate_recording.h"

namespace lacuna::cli {

namespace {

void evaluate_recording_run(const EvaluateCall& call, const Run& evaluated) {
  if (!call.screen.empty())
    throw UsageError("{} is the run of a recording; name another place of it with --recording",
                     call.run.string());
  TrainLines lines;
  const auto note = [&](const std::string& words) {
    if (ranks().is_first()) lines.note(words);
  };
  try {
    const std::string checkpoint = choose_checkpoint(evaluated, call.checkpoint);
    const RecordingSession session = open_recording_run(
        evaluated, {.checkpoint = checkpoint, .device = call.device, .recording = call.recording},
        note, lines.progress(), ranks());
    const fs::path out = call.out.empty() ? call.run : call.out;
    const RecordingEvaluation evaluation =
        evaluate_recording(session, {.checkpoint = checkpoint, .out = out}, note, lines.progress());
    if (!ranks().is_first()) return;
    fmt::print("checkpoint {}\n", checkpoint);
    print_recording_evaluation(evaluation);
  } catch (const Stopped&) {
    lines.clear_line();
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
  }
}

void print_evaluation(const Evaluation& evaluation) {
  fmt::print("{}", format_table(evaluation_rows(evaluation)));
  for (const std::string& line : evaluation_lines(evaluation)) fmt::print("{}\n", line);
  if (const auto apart = apart_rows(evaluation); !apart.empty())
    fmt::print("\n{}", format_table(apart));
}

void evaluate_given(const EvaluateCall& call) {
  TrainLines lines;
  const auto note = [&](const std::string& words) { lines.note(words); };
  GivenPredictions given = {.screen = call.screen,
                            .split = call.split,
                            .labels = call.labels,
                            .made_by = command_line(),
                            .baselines = !call.without_baselines};
  given.predicted = read_given_predictions(
      call.predictions, Screen::open(call.screen, lines.progress()), call.labels);
  try {
    const Evaluation evaluation = evaluate_predictions(given, call.out, note, lines.progress());
    fmt::print("predictions {}\n", call.predictions.string());
    print_evaluation(evaluation);
  } catch (const Stopped&) {
    lines.clear_line();
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
  }
}

}  // namespace

void run(const EvaluateCall& call) {
  const EvaluateRequest request = {
      .checkpoint = call.checkpoint, .device = call.device, .screen = call.screen, .out = call.out};
  stop_on_signals();
  if (!call.predictions.empty()) return ranks().is_first() ? evaluate_given(call) : void();
  const Run evaluated = Run::open(call.run);
  if (read_config(evaluated.config(), {}).kind() == DataKind::recording)
    return evaluate_recording_run(call, evaluated);
  if (!call.recording.empty())
    throw UsageError("{} is the run of a screen, not of a recording", call.run.string());
  TrainLines lines;
  const auto note = [&](const std::string& words) {
    if (ranks().is_first()) lines.note(words);
  };
  const std::string status = evaluated.info().value("status", "");
  try {
    const Evaluation evaluation = evaluate_run(evaluated, request, note, lines.progress(), ranks());
    if (!ranks().is_first()) return;
    fmt::print(
        "checkpoint {}{}\n", evaluation.checkpoint,
        status == "finished" ? "" : fmt::format(" of a run that has not ended ({})", status));
    print_evaluation(evaluation);
  } catch (const Stopped&) {
    lines.clear_line();
    fmt::print("stopped; nothing was written\n");
    set_exit_code(kResumeMe);
  }
}

}  // namespace lacuna::cli
