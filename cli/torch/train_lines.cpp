#include "cli/torch/train_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace lacuna::cli {
namespace {

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-";
}

}  // namespace

TrainLines::TrainLines() : is_terminal_(::isatty(2)) {}

void TrainLines::clear_line() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

void TrainLines::print(const std::string& line) {
  clear_line();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void TrainLines::note(const std::string& words) {
  clear_line();
  fmt::print(stderr, "note: {}\n", words);
}

void TrainLines::begin(const std::string& what) { print(what); }

void TrainLines::step(const TrainProgress& p) {
  if (!is_terminal_) return;
  const double share =
      double(p.epoch) + double(p.sample) / double(std::max<uint64_t>(p.samples, 1));
  clear_line();
  fmt::print(stderr, "epoch {:.2f}/{}  loss {}  validation Pearson {}  {} samples/s  {} left",
             share, p.epochs, number(p.loss), number(p.best_pearson), format_rate(p.samples_per_s),
             format_duration(p.seconds_left));
  shown_ = true;
}

void TrainLines::epoch(const TrainProgress& p, double train_loss,
                       const std::vector<Metrics>& validation) {
  std::string line =
      fmt::format("epoch {:>3}/{}  loss {}", p.epoch + 1, p.epochs, number(train_loss));
  for (const Metrics& metrics : validation)
    line +=
        fmt::format("  validation Pearson {}  MSE {:.4g}", number(metrics.pearson), metrics.mse);
  if (p.samples_per_s > 0)
    line += fmt::format("  {} samples/s  {} left", format_rate(p.samples_per_s),
                        format_duration(p.seconds_left));
  print(line);
}

}  // namespace lacuna::cli
