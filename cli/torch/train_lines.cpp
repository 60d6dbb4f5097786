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

std::string score_number(const Score& score, double value) {
  return score.higher_is_better ? number(value) : fmt::format("{:.4g}", value);
}

// "  best fitness 0.8123  worst size 0.1234": which of many parts, by a score.
std::string extremes(const Json& parts, const Score& score) {
  std::string best, worst;
  double highest = 0, lowest = 0;
  for (const auto& [name, part] : parts.items()) {
    const double value =
        score.higher_is_better ? double(part.at(score.name)) : -double(part.at(score.name));
    if (!std::isfinite(value)) continue;
    if (best.empty() || value > highest) best = name, highest = value;
    if (worst.empty() || value < lowest) worst = name, lowest = value;
  }
  if (best.empty()) return "";
  const double sign = score.higher_is_better ? 1 : -1;
  return fmt::format("  best {} {}  worst {} {}", best, score_number(score, sign * highest), worst,
                     score_number(score, sign * lowest));
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
  constexpr size_t kMostParts = 4;  // more do not fit a line: their mean, the best and the worst
  const Json& parts = validation.parts;
  const size_t shown = parts.size() <= kMostParts ? parts.size() : 0;
  for (const auto& [name, part] : parts.items()) {
    if (shown == 0) break;
    std::string before = shown > 1 ? fmt::format("  {}: ", name) : "  validation ";
    for (const Score& score : p.scores) {
      line += fmt::format("{}{} {}", std::exchange(before, "  "), score.title,
                          score_number(score, part.at(score.name)));
    }
  }
  if (parts.size() > 1) {
    line += fmt::format("  mean of {}:", parts.size());
    for (size_t i = 0; i < p.scores.size(); ++i)
      line += fmt::format(" {} {}", p.scores[i].title,
                          score_number(p.scores[i], validation.values.at(i)));
    if (shown == 0) line += extremes(parts, p.scores.at(0));
  }
  print(line + speed(p));
}

void print_recording_evaluation(const RecordingEvaluation& evaluation) {
  for (const RecordingPartEvaluation& part : evaluation.parts)
    fmt::print("\n{}", format_table(evaluation_rows(part), {4, 5}));
}

}  // namespace lacuna::cli
