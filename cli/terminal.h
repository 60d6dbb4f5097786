// What people see: progress lines and tables (core/text/text.h makes numbers and bytes readable).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/core/text/text.h"

namespace lacuna::cli {

// Between two lines of progress that go into a file, where they stay: few are enough.
constexpr auto kLineEvery = std::chrono::minutes(1);

// Whether the caller draws the progress itself, as Python does (python/lacuna/_program.py): it sets
// LACUNA_PROGRESS=lines, and gets print_progress() on stderr.
bool is_progress_in_lines();
// A line `progress: {"task": "..", "done": 1, "total": 2, "unit": ".."}`; total 0: not known.
void print_progress(std::string_view task, uint64_t done, uint64_t total, std::string_view unit);

// Shows work that takes over two seconds as one line on stderr, rewritten in place, with rate and
// time left. Where stderr is not a terminal, a new line every minute; for a caller that draws
// progress itself, five a second.
class TerminalProgress : public Progress {
 public:
  TerminalProgress();
  void begin(std::string_view task, uint64_t total, std::string_view unit) override;
  void advance(uint64_t done) override;
  void end() override;

 private:
  using Clock = std::chrono::steady_clock;
  void show(uint64_t done, Clock::time_point now);
  void clear();

  bool is_terminal_, in_lines_;
  bool shown_ = false;
  std::string task_, unit_;
  uint64_t total_ = 0;
  Clock::time_point start_, last_;
};

// "note: words" on stderr, always one line.
void print_note(const std::string& words);

// Columns as wide as their longest cell; those named in `right` (by index) are right-aligned. The
// first row is the header. Cells are made printable (core/text/printable.h).
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<size_t>& right = {});

// The command line of this process: as text, for a manifest's made_by, and as main() got it.
const std::string& command_line();
char** command_words();  // [argc + 1], the last is null
void remember_command_line(int argc, char** argv);

}  // namespace lacuna::cli
