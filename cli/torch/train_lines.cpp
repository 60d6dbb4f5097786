#include "cli/torch/train_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "lacuna/core/text/printable.h"

namespace lacuna::cli {
namespace {

// Where lines stay: the first soon, so that one sees that it goes on, and how fast.
constexpr std::chrono::steady_clock::duration kFirstLine = std::chrono::seconds(4);

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-";
}

std::string speed(const TrainProgress& p) {
  if (!std::isfinite(p.samples_per_s)) return "";
  return fmt::format("  {} samples/s  {} left", format_rate(p.samples_per_s),
                     format_duration(p.seconds_left));
}

}  // namespace

TrainLines::TrainLines() : is_terminal_(::isatty(2)), printed_(Clock::now()) {}

TrainLines::~TrainLines() { clear_line(); }

void TrainLines::clear_line() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

void TrainLines::print(const std::string& line) {
  clear_line();
  fmt::print("{}\n", printable(line));
  std::fflush(stdout);
  printed_ = Clock::now();
}

void TrainLines::note(const std::string& words) {
  clear_line();
  print_note(words);
}

void TrainLines::begin(const std::string& what) { print(what); }

void TrainLines::step(const TrainProgress& p) {
  if (is_progress_in_lines())
    return print_progress(fmt::format("epoch {}/{}", p.epoch + 1, p.epochs), p.sample, p.samples,
                          "samples");
  const double share =
      double(p.epoch) + double(p.sample) / double(std::max<uint64_t>(p.samples, 1));
  const std::string line =
      fmt::format("epoch {:.2f}/{}  loss {}  validation {} {}{}", share, p.epochs, number(p.loss),
                  p.scores.at(0).title, number(p.best), speed(p));
  if (!is_terminal_) {
    if (Clock::now() - printed_ > (has_printed_step_ ? Clock::duration(kLineEvery) : kFirstLine)) {
      print(line);
      has_printed_step_ = true;
    }
    return;
  }
  clear_line();
  fmt::print(stderr, "{}", line);
  shown_ = true;
}

void TrainLines::epoch(const TrainProgress& p, double train_loss,
                       const ValidationScores& validation) {
  std::string line =
      fmt::format("epoch {:>3}/{}  loss {}", p.epoch + 1, p.epochs, number(train_loss));
  constexpr size_t kMostParts = 4;  // more do not fit a line: their means
  const bool is_short = validation.parts.size() <= kMostParts;
  for (size_t i = 0; !is_short && i < p.scores.size(); ++i)
    line += fmt::format("  {}{} {}", i == 0 ? "validation " : "", p.scores[i].title,
                        number(validation.values.at(i)));
  const Json parts = is_short ? validation.parts : Json::object();
  for (const auto& [name, part] : parts.items()) {
    std::string before = parts.size() > 1 ? fmt::format("  {}: ", name) : "  validation ";
    for (const Score& score : p.scores) {
      const double value = part.at(score.name);
      line += fmt::format("{}{} {}", std::exchange(before, "  "), score.title,
                          score.higher_is_better ? number(value) : fmt::format("{:.4g}", value));
    }
  }
  print(line + speed(p));
}

void print_recording_evaluation(const RecordingEvaluation& evaluation) {
  for (const RecordingPartEvaluation& part : evaluation.parts)
    fmt::print("\n{}", format_table(evaluation_rows(part), {4, 5}));
}

}  // namespace lacuna::cli
