// What people see: progress lines and tables (numbers and bytes in a readable form: core/text.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/core/text/text.h"

namespace lacuna::cli {

// Between two lines of progress where they go into a file: they stay, so there are few of them.
constexpr auto kLineEvery = std::chrono::minutes(1);

// Shows work that takes over two seconds as one line on stderr, rewritten in place, with rate and
// time left. Where stderr is not a terminal a line stays, and one comes every minute.
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

  bool is_terminal_;
  bool shown_ = false;
  std::string task_, unit_;
  uint64_t total_ = 0;
  Clock::time_point start_, last_;
};

// "note: words" on stderr, one line whatever is in them.
void print_note(const std::string& words);

// Columns as wide as their longest cell; those named in `right` (by index) are right-aligned. The
// first row is the head. What a cell holds is made printable (core/printable.h).
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<size_t>& right = {});

// The command line of this process: as text, for a manifest's made_by, and as main() got it.
const std::string& command_line();
char** command_words();  // [argc + 1], the last is null
void remember_command_line(int argc, char** argv);

}  // namespace lacuna::cli
