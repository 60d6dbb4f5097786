#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lacuna/core/text/json.h"
#include "lacuna/core/text/printable.h"

namespace lacuna::cli {
namespace {

constexpr auto kQuietTime = std::chrono::seconds(2);
constexpr auto kRefresh = std::chrono::milliseconds(200);

std::string& stored_command_line() {
  static std::string text;
  return text;
}

char** stored_command_words = nullptr;

}  // namespace

bool is_progress_in_lines() {
  const char* const asked = std::getenv("LACUNA_PROGRESS");
  return asked && std::string_view(asked) == "lines";
}

void print_progress(std::string_view task, uint64_t done, uint64_t total, std::string_view unit) {
  const Json line = {{"task", printable(task)}, {"done", done}, {"total", total}, {"unit", unit}};
  fmt::print(stderr, "progress: {}\n", line.dump());
  std::fflush(stderr);
}

TerminalProgress::TerminalProgress()
    : is_terminal_(::isatty(STDERR_FILENO) == 1), in_lines_(is_progress_in_lines()) {}

void TerminalProgress::begin(std::string_view task, uint64_t total, std::string_view unit) {
  task_ = task;
  unit_ = unit;
  total_ = total;
  start_ = last_ = Clock::now();
}

void TerminalProgress::advance(uint64_t done) {
  const auto now = Clock::now();
  if (in_lines_) {
    if (now - last_ < kRefresh) return;
    last_ = now;
    return print_progress(task_, done, total_, unit_);
  }
  if (is_terminal_ ? now - start_ < kQuietTime || now - last_ < kRefresh : now - last_ < kLineEvery)
    return;
  last_ = now;
  show(done, now);
}

void TerminalProgress::end() { clear(); }

void TerminalProgress::show(uint64_t done, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = double(done) / seconds;
  std::string line = fmt::format("{}: {}", task_, with_commas(done));
  if (total_ > 0) line += fmt::format(" of {}", with_commas(total_));
  line += fmt::format(" {}, {} a second", unit_, format_rate(rate));
  if (total_ > done && rate > 0)
    line += fmt::format(", {} left", format_duration(double(total_ - done) / rate));
  if (is_terminal_)
    fmt::print(stderr, "\r\033[K{}", line);
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
  shown_ = is_terminal_;
}

void TerminalProgress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void print_note(const std::string& words) { fmt::print(stderr, "note: {}\n", printable(words)); }

std::string format_table(const std::vector<std::vector<std::string>>& given,
                         const std::vector<size_t>& right) {
  std::vector<std::vector<std::string>> rows = given;
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool to_right = std::find(right.begin(), right.end(), c) != right.end();
      const std::string gap = c > 0 ? "  " : "";
      line += to_right ? fmt::format("{}{:>{}}", gap, row[c], widths[c])
                       : fmt::format("{}{:<{}}", gap, row[c], widths[c]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

const std::string& command_line() { return stored_command_line(); }

char** command_words() { return stored_command_words; }

void remember_command_line(int argc, char** argv) {
  stored_command_words = argv;
  std::string& text = stored_command_line();
  text = "lacuna";
  for (int i = 1; i < argc; ++i) text += " " + shell_word(argv[i]);
}

}  // namespace lacuna::cli
